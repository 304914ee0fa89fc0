// Queues copies of blocks in a stream, each by the way that is the fastest for it.
#pragma once

#include <vector>

#include "../../transfer/lane/device_lane.h"
#include "../base/call.h"
#include "../kernels/copy.h"

namespace blockstep::cuda {

enum class Direction { kToDevice, kToHost, kOnDevice };

/// Two memories of blocks that a GPU sees.
struct Sides {
  Direction direction;
  const u8* source;            // for the copy engine
  u8* target;
  const u8* source_on_device;  // for the kernel
  u8* target_on_device;
  u64 bytes_per_block;
};

class Copier {
 public:
  /// At most so many blocks in one copy().
  static constexpr u32 kMaxBlocks = kLargePairs;
  using Cut = DeviceLaneInfo::Cut;
  static constexpr u32 kCuts = DeviceLaneInfo::kCuts;

  /// The GPU is the current one of this thread. Where the cut is neither given nor plain, the constructor measures it,
  /// and waits for that.
  /// @throws Error kBadArg for a kernel that cannot copy such blocks, kCuda also if this driver has no batches
  Copier(const Sides& sides, const DeviceLaneOptions& options, cudaStream_t stream);

  /// Queues copies of all these runs. No two of them have a target block in common. The GPU is the current one.
  /// @param behind_event the sources may be written by what the stream waits for
  /// @throws Error kCuda, and part of it may be queued
  void copy(const Run* runs, u32 count, bool behind_event);

  /// kKernel if the kernel copies all runs; otherwise how runs are copied that the cuts do not give to the kernel:
  /// kBatch or kCopies.
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
  std::vector<void*> targets_;  // of copies for the copy engine
  std::vector<void*> sources_;
  std::vector<std::size_t> sizes_;
};

}  // namespace blockstep::cuda
