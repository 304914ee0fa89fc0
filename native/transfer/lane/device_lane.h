// DeviceLane: a lane whose copies a GPU makes, and what it promises in addition to Lane.
#pragma once

#include <string>

#include "lane.h"

namespace blockstep {

/// How runs are copied. kKernel: by a kernel. kBatch: by the copy engine, one batched CUDA call per piece. kCopies: by the copy engine,
/// one CUDA call per run. kAuto: by the kernel; blocks that are no multiples of 16 bytes by the copy engine, in batches where the driver
/// has them.
enum class CopyMode : u32 { kAuto, kBatch, kKernel, kCopies };
/// How the GPU reports what it has done. kWriteValue: it stores 64 bits in pinned memory. kEvent: by CUDA events.
/// kAuto: by stores where the GPU can, otherwise by events.
enum class CompletionMode : u32 { kAuto, kWriteValue, kEvent };

struct DeviceLaneOptions {
  CopyMode mode = CopyMode::kAuto;
  CompletionMode completion = CompletionMode::kAuto;
  u64 window_bytes = u64{256} << 20;  // queued on the GPU at once, at least one piece; a fence may have to wait for them
  u64 piece_bytes = u64{32} << 20;  // at most so many per piece, at least one block; arrivals are noted per piece
  u32 runs_per_call = 1024;         // one call queues no more runs than so many, or than one piece has: each costs half a
                                    // microsecond, and the next call goes on
  u32 patience_ms = 10000;          // milliseconds without progress until the GPU counts as lost
};

struct DeviceLaneInfo {
  u32 device;
  CopyMode mode;              // not kAuto
  CompletionMode completion;  // kWriteValue or kEvent
};

/// A lane whose copies a GPU makes, in a stream of its own. Only flush(), fence() and the destructor wait for the GPU,
/// and no longer than `patience_ms` without progress. The lane notes what the GPU has done when the ring is drained,
/// and in cancel(), flush(), fence(), pending() and traffic(); arrivals and traffic change only then.
///
/// A piece that was queued on the GPU will be copied; cancel() and fence() hold back only pieces that were not queued
/// yet. A job fails if a CUDA call for one of its pieces fails. If the GPU is lost, or makes no progress, every job
/// fails, and submit() and record_step() throw kCuda from then on. CUDA frees no memory while some work never ends. So
/// once work has hung, the memory of all lanes stays allocated for the rest of the process.
class DeviceLane : public Lane {
 public:
  /// Says that the work of every step up to `step` is queued in `stream`, a cudaStream_t of the lane's GPU. Jobs that
  /// wait for these steps become ready; on the GPU their copies wait for everything that is queued in `stream` now.
  /// Steps come in order; recording a step that was recorded or settled already changes nothing.
  /// @throws Error kCuda, and kBadArg if the stream is capturing a graph; nothing is changed
  virtual void record_step(std::int64_t step, u64 stream) = 0;
  virtual const DeviceLaneInfo& info() const = 0;
};

}  // namespace blockstep
