// DeviceLane: a lane whose copies a GPU makes, with its guarantees in addition to Lane.
#pragma once

#include <string>

#include "lane.h"

namespace blockstep {

/// How runs are copied. kKernel: by a kernel. kBatch: by the copy engine, one batched CUDA call per
/// piece. kCopies: by the copy engine, one CUDA call per run. kAuto: by the kernel. Blocks whose
/// size is no multiple of 16 bytes go to the copy engine, in batches if the driver supports them.
enum class CopyMode : u32 { kAuto, kBatch, kKernel, kCopies };
/// How the GPU reports its progress. kWriteValue: it stores 64 bits in pinned memory. kEvent: by
/// CUDA events. kAuto: by stores if the GPU supports them, otherwise by events.
enum class CompletionMode : u32 { kAuto, kWriteValue, kEvent };

struct DeviceLaneOptions {
  CopyMode mode = CopyMode::kAuto;
  CompletionMode completion = CompletionMode::kAuto;
  // Most bytes queued on the GPU, but at least one piece. A fence may have to wait for them.
  u64 window_bytes = u64{256} << 20;
  // Most bytes per piece, but at least one block. Arrivals are noted per piece.
  u64 piece_bytes = u64{32} << 20;
  // Most runs that one call queues, unless one piece has more. A run costs half a microsecond. The
  // next call continues.
  u32 runs_per_call = 1024;
  u32 patience_ms = 10000;          // milliseconds without progress until the GPU counts as lost
};

struct DeviceLaneInfo {
  u32 device;
  CopyMode mode;              // not kAuto
  CompletionMode completion;  // kWriteValue or kEvent
};

/// A lane whose copies a GPU makes, in its own stream. Only flush(), fence() and the destructor
/// wait for the GPU, at most for `patience_ms` without progress. The lane notes the GPU's progress
/// when the ring is drained, and in cancel(), flush(), fence(), pending() and traffic(). Arrivals
/// and traffic change only then.
///
/// A piece that was queued on the GPU will be copied. cancel() and fence() hold back only pieces
/// that were not queued yet. A job fails if a CUDA call for one of its pieces fails. If the GPU is
/// lost, or makes no progress, every job fails, and submit() and record_step() throw kCuda from
/// then on. CUDA frees no memory while some work never ends. After work has hung, the memory of all
/// lanes therefore stays allocated for the rest of the process.
class DeviceLane : public Lane {
 public:
  /// Tells the lane that the work of every step up to `step` is queued in `stream`, a cudaStream_t
  /// of the lane's GPU. Jobs that wait for these steps become ready. On the GPU, their copies wait
  /// for all work that is queued in `stream` now. Steps come in order. Recording an already
  /// recorded or settled step changes nothing.
  /// @throws Error kCuda, and kBadArg if the stream is capturing a graph; nothing is changed
  virtual void record_step(std::int64_t step, u64 stream) = 0;
  virtual const DeviceLaneInfo& info() const = 0;
};

}  // namespace blockstep
