// The steps of which a GPU was told, and not yet the host that they were executed.
#pragma once

#include "../../transfer/lane/lane.h"
#include "../base/call.h"

namespace blockstep::cuda {

/// For the last steps an event each, behind what was queued when they were recorded. An event that is gone is stood in for by
/// that of a later step, which comes no earlier.
class RecordedSteps {
 public:
  /// The last one; Lane::kNoFence: none.
  std::int64_t last() const { return last_; }

  /// `step` is later than the last one. The stream's GPU is the current one. @throws Error kCuda, and nothing is changed
  void record(std::int64_t step, cudaStream_t stream) {
    Entry& entry = entries_[count_ % kKept];
    require(cudaEventRecord(entry.event.get(), stream), "cudaEventRecord");
    entry.step = step;
    last_ = step;
    ++count_;
  }

  /// What is queued in `stream` from now on comes behind this step, which is at most the last one. @throws Error kCuda
  void wait(std::int64_t step, cudaStream_t stream) {
    if (step <= waited_) return;
    u64 at = count_ < kKept ? 0 : count_ - kKept;
    while (entries_[at % kKept].step < step) ++at;
    const Entry& entry = entries_[at % kKept];
    require(cudaStreamWaitEvent(stream, entry.event.get(), 0), "cudaStreamWaitEvent");
    waited_ = entry.step;
  }

 private:
  static constexpr u64 kKept = 64;
  struct Entry {
    Event event;
    std::int64_t step = Lane::kNoFence;
  };

  Entry entries_[kKept];
  u64 count_ = 0;
  std::int64_t last_ = Lane::kNoFence;
  std::int64_t waited_ = Lane::kNoFence;  // the stream does so already
};

}  // namespace blockstep::cuda
