// A reference executor whose KV memory and tables lie on a device, which computes steps in its own time.
#pragma once

#include <memory>

#include "reference.h"

namespace blockstep {

/// One thread, the owner, calls all methods. Only the destructor waits for the device. Steps are computed in the order in
/// which they were submitted.
class DeviceReference {
 public:
  virtual ~DeviceReference() = default;

  /// Gives the device a whole step, behind what is queued in stream() now, and before what will be. `io` is laid out as
  /// lay_out_step() says; it and `known` are copied. The tables are read while the step is computed, so they are arrays
  /// on the device, or arrays that the device can read.
  /// @throws Error kBadArg as ReferenceModel::step(), kLimit if pipeline_depth steps were not taken, and nothing is
  /// changed; kCuda, and from then on always
  virtual void submit(const void* io, const Tables& tables, Span<const std::int32_t> known) = 0;
  /// Is the oldest step that was not taken computed? If so, `io` gets its answer, and the step counts as taken.
  /// @throws Error what the step failed with, and the step counts as taken; kCuda, and from then on always
  virtual bool take(void* io) = 0;
  /// As ReferenceModel::adopt(), behind the steps that were submitted. @throws Error kBadArg, and nothing is changed;
  /// kCuda, kInvariant
  virtual void adopt(u64 handle, Span<const std::int32_t> blocks) = 0;

  virtual const ReferenceConfig& config() const = 0;
  /// The KV memory, on the device.
  virtual const std::shared_ptr<BlockArena>& blocks() const = 0;
  /// The stream in which steps are computed, a cudaStream_t.
  virtual u64 stream() const = 0;
  virtual u64 arena_bytes() const = 0;
  /// Memory of the host that the device reads and writes.
  virtual u64 pinned_bytes() const = 0;
  virtual u32 num_sequences() const = 0;
};

}  // namespace blockstep
