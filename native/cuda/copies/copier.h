// Copier: queues copies of blocks in a stream, by the kernel or by the copy engine.
#pragma once

#include <vector>

#include "../../transfer/lane/device_lane.h"
#include "../memory/memory.h"
#include "../kernels/copy.h"

namespace blockstep::cuda {

enum class Direction { kToDevice, kToHost, kOnDevice };

/// The source and target of copies: two memories of blocks that a GPU can reach.
struct Sides {
  Direction direction;
  const u8* source;            // first block, at its address for the copy engine
  u8* target;
  const u8* source_on_device;  // first block, at its address for the kernel
  u8* target_on_device;
  u64 bytes_per_block;
};

class Copier {
 public:
  /// Maximum number of blocks of one copy().
  static constexpr u32 kMaxBlocks = kLargePairs;

  /// The GPU of `stream` is current for this thread. CopyMode::kAuto: by the kernel, unless it
  /// cannot copy such blocks.
  /// @throws Error kBadArg if the kernel is requested and cannot copy such blocks; kCuda, also if
  /// kBatch is requested and this driver has no batches
  Copier(const Sides& sides, const DeviceLaneOptions& options, cudaStream_t stream);

  /// Queues copies of `count` runs, whose target blocks differ. The stream's GPU is current.
  /// @param behind_event the stream waits for work that may write the sources
  /// @throws Error kCuda, and some of the copies may be queued
  void copy(const Run* runs, u32 count, bool behind_event);

  /// Not kAuto.
  CopyMode mode() const { return mode_; }

 private:
  void add_pairs(const Run& run);
  void add_copy(const Run& run);
  void launch();
  cudaError_t start_batch(cudaMemcpySrcAccessOrder order);
  cudaError_t start_copies();
  bool batches_work();

  Sides sides_;
  cudaStream_t stream_;
  CopyMode mode_;
  CopyLetter<kLargePairs> letter_{};
  std::vector<void*> targets_;  // copies by the copy engine: targets, sources, bytes
  std::vector<void*> sources_;
  std::vector<std::size_t> sizes_;
};

}  // namespace blockstep::cuda
