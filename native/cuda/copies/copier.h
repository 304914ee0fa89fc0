// Copier: queues copies of blocks in a stream, each by the kernel or by the copy engine, whichever is faster.
#pragma once

#include <vector>

#include "../../transfer/lane/device_lane.h"
#include "../memory/memory.h"
#include "../kernels/copy.h"

namespace blockstep::cuda {

enum class Direction { kToDevice, kToHost, kOnDevice };

/// The source and the target of copies: two memories of blocks that a GPU can reach.
struct Sides {
  Direction direction;
  const u8* source;            // first block, by its address for the copy engine
  u8* target;
  const u8* source_on_device;  // first block, by its address for the kernel
  u8* target_on_device;
  u64 bytes_per_block;
};

class Copier {
 public:
  /// The most blocks that one copy() can copy.
  static constexpr u32 kMaxBlocks = kLargePairs;
  using Cut = DeviceLaneInfo::Cut;
  static constexpr u32 kCuts = DeviceLaneInfo::kCuts;

  /// The GPU of `stream` is the current one of this thread. With CopyMode::kAuto and no cut given, the constructor
  /// measures the cuts and waits for that, unless the blocks are not multiples of 16 bytes or both sides are on the
  /// GPU.
  /// @throws Error kBadArg if the kernel is asked for and cannot copy such blocks; kCuda, also if kBatch is asked for
  /// and this driver has no batches
  Copier(const Sides& sides, const DeviceLaneOptions& options, cudaStream_t stream);

  /// Queues copies of `count` runs. No two runs have a target block in common. The stream's GPU is the current one.
  /// @param behind_event the stream waits for work that may write the sources
  /// @throws Error kCuda, and some of the copies may be queued
  void copy(const Run* runs, u32 count, bool behind_event);

  /// kKernel if the kernel copies all runs. Otherwise kBatch or kCopies: how the copy engine copies the runs that the
  /// cuts do not give to the kernel.
  CopyMode mode() const;
  const Cut* cuts() const { return cuts_; }
  double calibration_ms() const { return calibration_ms_; }

 private:
  void set_cuts(u32 bytes);
  u32 cut_for(u32 runs) const;
  void add_pairs(const Run& run);
  void add_copy(const Run& run, u64 bytes);
  void launch();
  cudaError_t start_batch(cudaMemcpySrcAccessOrder order);
  cudaError_t start_copies();
  bool batches_work();

  Sides sides_;
  cudaStream_t stream_;
  bool batches_ = true;
  Cut cuts_[kCuts] = {{16, 0}, {64, 0}, {256, 0}};
  double calibration_ms_ = 0;
  CopyLetter<kLargePairs> letter_{};
  std::vector<void*> targets_;  // the copies that the copy engine makes: targets, sources, bytes
  std::vector<void*> sources_;
  std::vector<std::size_t> sizes_;
};

}  // namespace blockstep::cuda
