// Streams and events with owners, and waits with a time limit.
#pragma once

#include <chrono>

#include "gpu.h"

namespace blockstep::cuda {

/// Queries whether a stream has done its work: cudaSuccess, cudaErrorNotReady, or the error of the
/// work. A stream that is being captured, or cannot answer because of another thread's capture, is
/// not ready. Does not change the pending error of this thread. The stream's GPU is current.
cudaError_t query(cudaStream_t stream);
/// The same for the work that was queued when an event was recorded.
cudaError_t query(cudaEvent_t event);

/// Default time limit of a call that waits for the GPU.
#if defined(GPU_SHIM_THREADS)
// Each thread of a kernel is a host thread, beside other work.
constexpr std::chrono::milliseconds kPatience{15000};
#else
constexpr std::chrono::milliseconds kPatience{5000};
#endif

/// While a thread waits, it queries the stream at this interval, to detect a lost GPU.
constexpr std::chrono::milliseconds kCheckInterval{2};

/// A single query may fail. After this number of failures the device counts as lost, and runs no
/// work.
constexpr u32 kErrorsOfLost = 2;

/// Waits until a stream has done its work. Returns false if it has not within `patience`. Memory
/// that its work uses must then never be freed. The stream's GPU is current. @throws Error kCuda
/// that names the work, `what`, if the device is lost
bool wait_for(cudaStream_t stream, const char* what, std::chrono::milliseconds patience = kPatience);

/// Waits, and returns whether no work of a stream uses memory any more: it is done, or the device
/// is lost and runs no work. For code that frees the memory after an error.
bool is_over(cudaStream_t stream, std::chrono::milliseconds patience = kPatience);

/// Throws the error for work that did not end in time. `bytes` of memory that it uses stay
/// allocated.
[[noreturn]] void give_up(const char* what, u64 bytes, std::chrono::milliseconds patience = kPatience);

/// Whether a stream is capturing a graph. @throws Error kCuda
bool is_capturing(cudaStream_t stream);

/// @throws Error kBadArg that names the argument, `name`, if a stream is being captured. A
/// dependency on this stream would become a part of the graph, and pull the other stream into the
/// capture.
void refuse_capture(cudaStream_t stream, const char* name);

/// Priority of a stream among the streams of this GPU. A small kernel that a step waits for must
/// not wait behind a forward pass. Copies without waiters must not delay either.
enum class Priority { kHighest, kLowest };

/// A stream with an owner. It is not ordered with the default stream.
class Stream {
 public:
  /// A stream of the current GPU. @throws Error kCuda
  explicit Stream(Priority priority = Priority::kHighest);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }

 private:
  int device_ = 0;
  cudaStream_t stream_ = nullptr;
};

/// An event with an owner, without a time stamp.
class Event {
 public:
  /// An event of the current GPU. @throws Error kCuda
  Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();
  cudaEvent_t get() const { return event_; }
  int device() const { return device_; }

 private:
  int device_ = 0;
  cudaEvent_t event_ = nullptr;
};

}  // namespace blockstep::cuda
