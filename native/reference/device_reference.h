// DeviceReference: a reference executor with KV memory and tables on a device, and asynchronous
// steps.
#pragma once

#include <memory>

#include "reference.h"

namespace blockstep {

/// The tables of a step on a device. The arrays of each KV cache group have separate addresses.
struct TablesOnDevice {
  Tables at;
  GroupTables groups[kMaxGroups];  // [num_lists()]; the first has the arrays of `at`
};

/// One thread, the owner, calls all methods. Only the destructor waits for the device. Steps are
/// computed in the order of their submission.
class DeviceReference {
 public:
  virtual ~DeviceReference() = default;

  /// Queues a whole step in stream(), after all work that is queued there now. lay_out_step()
  /// defines the layout of `io`. `io`, `known` and `zeroed` are copied. The tables are read while
  /// the step is computed, so the device must be able to read the arrays. The blocks in `zeroed`
  /// are wiped first.
  /// @throws Error kBadArg like ReferenceModel::step(), kLimit if pipeline_depth steps were not
  /// drained yet, and nothing is changed; kCuda, and from then on every call throws kCuda
  virtual void submit(const void* io, const TablesOnDevice& tables, Span<const std::int32_t> known,
                      Span<const std::int32_t> zeroed = {nullptr, 0}) = 0;
  /// Drains the oldest submitted step if it is computed: copies its answer to `io` and returns true.
  /// Returns false if the step is not computed yet, or if there is none.
  /// @throws Error the error of the step, which then counts as drained; kCuda, and from then on every
  /// call throws kCuda
  virtual bool drain(void* io) = 0;
  /// Like ReferenceModel::adopt(). The device changes the entries after the submitted steps.
  /// @throws Error kBadArg, and nothing is changed; kCuda, kInvariant
  virtual void adopt(u64 handle, Span<const std::int32_t> blocks) = 0;

  virtual const ReferenceConfig& config() const = 0;
  /// The KV memory, on the device.
  virtual const std::shared_ptr<BlockArena>& blocks() const = 0;
  /// The stream in which steps are computed, a cudaStream_t.
  virtual u64 stream() const = 0;
  /// Bytes of the KV memory and of the record of each block's owner.
  virtual u64 arena_bytes() const = 0;
  /// Bytes of pinned host memory, which the device reads and writes.
  virtual u64 pinned_bytes() const = 0;
  /// Number of requests with an unpaged copy.
  virtual u32 num_sequences() const = 0;
};

}  // namespace blockstep
