// Streams and events that their objects own, and waits that end.
#pragma once

#include <chrono>

#include "gpu.h"

namespace blockstep::cuda {

/// Asks whether a stream has done its work: cudaSuccess, cudaErrorNotReady, or the error of the work. A stream that is being
/// captured, or that the capture of another thread keeps from answering, is not ready. Leaves the pending error of this
/// thread alone. The stream's GPU is the current one.
cudaError_t query(cudaStream_t stream);
/// The same for what was queued when an event was recorded.
cudaError_t query(cudaEvent_t event);

/// How long a call that has to wait for the GPU waits, unless it says otherwise.
#if defined(GPU_SHIM_THREADS)
constexpr std::chrono::milliseconds kPatience{15000};  // each thread of a kernel is one of the host, beside other work
#elif defined(GPU_SHIM)
constexpr std::chrono::milliseconds kPatience{2000};  // tests wait for its end
#else
constexpr std::chrono::milliseconds kPatience{5000};
#endif

/// While what a thread waits for does not come, it queries the stream at this interval, to find out whether the GPU is lost.
constexpr std::chrono::milliseconds kCheckInterval{2};

/// A question may fail alone. After so many that fail the device is lost, and no work runs on it.
constexpr u32 kErrorsOfLost = 2;

/// Waits until a stream has done its work. Returns false if it has not within `patience`: whatever its work uses must then
/// never be freed. The stream's GPU is the current one. @throws Error kCuda that names the work, `what`, if the device is lost
bool wait_for(cudaStream_t stream, const char* what, std::chrono::milliseconds patience = kPatience);

/// Whether no work of a stream uses memory any more, waited for: it is done, or the device is lost, on which no work runs. For
/// whoever is to free the memory after an error.
bool is_over(cudaStream_t stream, std::chrono::milliseconds patience = kPatience);

/// The error for work that did not end in time. `bytes` of memory that it uses stay allocated. Throws it.
[[noreturn]] void give_up(const char* what, u64 bytes, std::chrono::milliseconds patience = kPatience);

/// Whether a stream is capturing a graph. @throws Error kCuda
bool is_capturing(cudaStream_t stream);

/// @throws Error kBadArg that names the argument, `name`, if a stream is being captured: an order that is made with it would
/// become a part of the graph, and pull the other stream into the capture
void refuse_capture(cudaStream_t stream, const char* name);

/// Of a stream against others of this GPU. A small kernel that a step waits for must not wait behind a forward pass; copies
/// that nobody waits for must not get into its way.
enum class Priority { kHighest, kLowest };

/// A stream that this object owns. It is not ordered with the default stream.
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

/// An event that this object owns, without a time stamp.
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
