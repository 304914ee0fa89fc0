// What a lane of a GPU promises beside what every lane promises.
#pragma once

#include <optional>
#include <string>

#include "lane.h"

namespace blockstep {

/// How runs are copied. kAuto: small ones by a kernel, large ones by the copy engine, as `cut` says.
enum class CopyMode : u32 { kAuto, kBatch, kKernel, kCopies };
/// How the GPU says what it has done: by stores of 64 bits or by events. kAuto: by stores, where the GPU can.
enum class CompletionMode : u32 { kAuto, kWriteValue, kEvent };

struct DeviceLaneOptions {
  CopyMode mode = CopyMode::kAuto;
  CompletionMode completion = CompletionMode::kAuto;
  std::optional<u32> cut;           // runs of fewer bytes go by the kernel; none: measured
  u64 window_bytes = u64{1} << 30;  // given to the GPU ahead, one piece at least: what a fence may have to wait for
  u64 piece_bytes = u64{32} << 20;  // at most so many a piece, but one block at least; arrivals are noted by pieces
  u32 patience_ms = 10000;          // without progress, until the GPU counts as lost
};

struct DeviceLaneInfo {
  u32 device;
  CopyMode mode;              // kBatch, kKernel or kCopies, or kAuto: kernel and batches, by the cut
  CompletionMode completion;  // not kAuto
  /// In a piece of so many runs, those of fewer bytes than this go by the kernel.
  struct Cut {
    u32 runs;
    u32 bytes;
  };
  static constexpr u32 kCuts = 3;
  Cut cuts[kCuts];
  double calibration_ms;      // how long measuring them took; 0: they were not measured
};

/// A lane whose copies a GPU carries out, in a stream of its own. Only flush(), fence() and the destructor wait for the
/// GPU, and no longer than `patience_ms` without progress. What the GPU has done is noted when the ring is drained or
/// the lane is asked; until then arrivals and traffic are as they were.
///
/// A piece that was given to the GPU is copied; cancel() and fence() keep back only the pieces that were not. A job
/// fails if a CUDA call for one of its pieces fails. If the GPU is lost, or makes no progress, every job fails, and
/// submit() and record_step() throw kCuda from then on. CUDA frees no memory while any work does not end. So after such
/// work the memory of all lanes stays allocated for the rest of the process.
class DeviceLane : public Lane {
 public:
  /// Says that the work of every step up to this one is queued in `stream`, a cudaStream_t of the lane's GPU. Jobs that
  /// wait for these steps become ready, and wait on the GPU for what is queued in the stream now. Steps come in order;
  /// a step that was recorded or settled already changes nothing. The stream must not be capturing.
  /// @throws Error kCuda, and nothing is changed
  virtual void record_step(std::int64_t step, u64 stream) = 0;
  virtual const DeviceLaneInfo& info() const = 0;
};

}  // namespace blockstep
