// Timeline: the progress of a stream.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../../transfer/lane/device_lane.h"
#include "../memory/memory.h"

namespace blockstep::cuda {

/// Marks in one stream, numbered from 1. When the GPU reaches a mark, it stores the mark's number
/// in pinned memory, by a stream operation without a kernel. done() reads that memory, without a
/// CUDA call. If the GPU does not support this, each mark is an event, which done() queries.
class Timeline {
 public:
  /// `device` is the current GPU of this thread. No work is queued in `stream`. Tries a store,
  /// because a GPU may report the feature and not support it. @param max_marks maximum number of
  /// marks ahead of done()
  /// @throws Error kCuda, also for CompletionMode::kWriteValue if the GPU or its driver cannot
  /// store 64 bits
  Timeline(u32 device, CompletionMode mode, u32 max_marks, cudaStream_t stream);

  /// kWriteValue or kEvent.
  CompletionMode mode() const { return write_ ? CompletionMode::kWriteValue : CompletionMode::kEvent; }
  /// Sets a mark after all work that is queued in the stream. `number` is the number of the last
  /// mark plus 1. The stream's GPU is current. @throws Error kCuda
  void mark(u64 number, cudaStream_t stream);
  /// The last mark that the GPU has reached. All work before that mark in the stream is done, and
  /// its writes are visible.
  /// @throws Error kCuda
  u64 done();

 private:
  const std::atomic<u64>& word() const { return *reinterpret_cast<const std::atomic<u64>*>(memory_.base()); }
  void store(u64 number, cudaStream_t stream);
  bool store_comes(cudaStream_t stream);

  MappedMemory memory_{64};  // its own cache line
  PFN_cuStreamWriteValue64_v11070 write_ = nullptr;
  std::vector<std::unique_ptr<Event>> events_;  // by number of the mark modulo max_marks
  u64 marked_ = 0;
  u64 done_ = 0;
};

}  // namespace blockstep::cuda
