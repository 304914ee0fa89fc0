// DeviceReference: a reference executor whose KV memory and tables lie on a device, and whose steps run asynchronously.
#pragma once

#include <memory>

#include "reference.h"

namespace blockstep {

/// The tables of a step where a device has them. The arrays of each KV cache group are at addresses of their own.
struct TablesOnDevice {
  Tables at;
  GroupTables groups[kMaxGroups];  // [num_lists()]; the first has those of `at`
};

/// One thread, the owner, calls all methods. Only the end of the object waits for the device. Steps are computed in the
/// order in which they were submitted.
class DeviceReference {
 public:
  virtual ~DeviceReference() = default;

  /// Queues a whole step in stream(), behind everything that is queued there now. `io` is laid out as lay_out_step()
  /// says; `io`, `known` and `zeroed` are copied. The tables are read while the step is computed, so they are arrays on the
  /// device, or arrays that the device can read. The blocks in `zeroed` are wiped first.
  /// @throws Error kBadArg as ReferenceModel::step(), kLimit if pipeline_depth steps were not taken yet, and nothing is
  /// changed; kCuda, and from then on every call throws kCuda
  virtual void submit(const void* io, const TablesOnDevice& tables, Span<const std::int32_t> known,
                      Span<const std::int32_t> zeroed = {nullptr, 0}) = 0;
  /// Takes the oldest submitted step if it is computed: copies its answer to `io` and returns true. Returns false if
  /// the step is not computed yet, or if there is none.
  /// @throws Error the error with which the step failed, and the step counts as taken; kCuda, and from then on every
  /// call throws kCuda
  virtual bool take(void* io) = 0;
  /// As ReferenceModel::adopt(); the device changes the entries behind the steps that were submitted.
  /// @throws Error kBadArg, and nothing is changed; kCuda, kInvariant
  virtual void adopt(u64 handle, Span<const std::int32_t> blocks) = 0;

  virtual const ReferenceConfig& config() const = 0;
  /// The KV memory, on the device.
  virtual const std::shared_ptr<BlockArena>& blocks() const = 0;
  /// The stream in which steps are computed, a cudaStream_t.
  virtual u64 stream() const = 0;
  /// Bytes of the KV memory and of the record of who has which block.
  virtual u64 arena_bytes() const = 0;
  /// Bytes of pinned memory of the host, which the device reads and writes.
  virtual u64 pinned_bytes() const = 0;
  /// Requests of which an unpaged copy is kept.
  virtual u32 num_sequences() const = 0;
};

}  // namespace blockstep
