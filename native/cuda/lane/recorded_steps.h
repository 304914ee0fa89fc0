// RecordedSteps: the last steps that an executor queued in its stream, each with an event to wait
// for.
#pragma once

#include "../../transfer/lane/lane.h"
#include "../base/stream.h"

namespace blockstep::cuda {

/// Each of the last kKept recorded steps has an event, after all work that was queued when the step
/// was recorded. If the event of an older step no longer exists, wait() uses the event of a later
/// step, which is never earlier.
class RecordedSteps {
 public:
  /// The last recorded step, or Lane::kNoFence.
  std::int64_t last() const { return last_; }

  /// Records that all work up to `step` is queued in `stream`. `step` is later than last(). The
  /// stream's GPU is current. @throws Error kCuda, and kBadArg if the stream is capturing a graph;
  /// nothing is changed
  void record(std::int64_t step, cudaStream_t stream) {
    refuse_capture(stream, "stream");
    Entry& entry = entries_[count_ % kKept];
    require(cudaEventRecord(entry.event.get(), stream), "cudaEventRecord");
    entry.step = step;
    last_ = step;
    ++count_;
  }

  /// Makes work that is queued in `stream` from now on wait for `step`, which is at most last().
  /// `stream` is always the lane's stream. @throws Error kCuda
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
  std::int64_t waited_ = Lane::kNoFence;  // the lane's stream already waits for the steps up to this one
};

}  // namespace blockstep::cuda
