// The steps that were recorded in a stream of a GPU, and of which the host does not know yet that they were executed.
#pragma once

#include "../../transfer/lane/lane.h"
#include "../base/call.h"

namespace blockstep::cuda {

/// Each of the last steps has an event, behind what was queued when the step was recorded. Where the event of a step is gone,
/// that of a later step stands in for it; it comes no earlier.
class RecordedSteps {
 public:
  /// The last step that was recorded; Lane::kNoFence: none was.
  std::int64_t last() const { return last_; }

  /// `step` is later than the last one. The stream's GPU is the current one. @throws Error kCuda, and nothing is changed
  void record(std::int64_t step, cudaStream_t stream) {
    Entry& entry = entries_[count_ % kKept];
    require(cudaEventRecord(entry.event.get(), stream), "cudaEventRecord");
    entry.step = step;
    last_ = step;
    ++count_;
  }

  /// Work that is queued in `stream` from now on comes behind this step, which is at most the last one. @throws Error kCuda
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
  std::int64_t waited_ = Lane::kNoFence;  // the stream waits for the steps up to this one already
};

}  // namespace blockstep::cuda
