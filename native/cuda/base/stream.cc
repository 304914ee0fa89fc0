#include "stream.h"

#include <thread>

namespace blockstep::cuda {
namespace {

/// Errors of a capture, from cudaErrorStreamCaptureUnsupported to
/// cudaErrorStreamCaptureWrongThread. They mean that the query was not answered, and say nothing
/// about the work.
constexpr int kFirstOfCapture = 900;
constexpr int kLastOfCapture = 908;

cudaError_t answer(CUresult result) {
  const auto number = static_cast<int>(result);
  if (number >= kFirstOfCapture && number <= kLastOfCapture) return cudaErrorNotReady;
  return static_cast<cudaError_t>(number);  // the runtime and the driver have the same numbers
}

/// Frees a resource on its GPU. Errors are ignored, because no caller could handle them.
template <class Call>
void give_back(int device, const Call& call) {
  try {
    const OnDevice on(device);
    static_cast<void>(call());
  } catch (const Error&) {
  }
}

}  // namespace

cudaError_t query(cudaStream_t stream) { return answer(driver().query_stream(stream)); }
cudaError_t query(cudaEvent_t event) { return answer(driver().query_event(event)); }

bool wait_for(cudaStream_t stream, const char* what, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (u32 errors = 0;;) {
    const cudaError_t status = query(stream);
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady && ++errors == kErrorsOfLost) require(status, what);
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
}

bool is_over(cudaStream_t stream, std::chrono::milliseconds patience) {
  try {
    return wait_for(stream, "work on the GPU", patience);
  } catch (const Error&) {
    return true;
  }
}

void give_up(const char* what, u64 bytes, std::chrono::milliseconds patience) {
  throw Error{kCuda, std::string(what) + " did not end within " + std::to_string(patience.count()) +
                         " ms: the GPU is busy with something else. " + std::to_string(bytes) +
                         " bytes that it uses stay allocated"};
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void refuse_capture(cudaStream_t stream, const char* name) {
  if (!is_capturing(stream)) return;
  throw Error{kBadArg, std::string(name) + " must not be capturing a graph, got stream " +
                           std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + ", which is"};
}

Stream::Stream(Priority priority) : device_(current_gpu()) {
  int lowest = 0;
  int highest = 0;
  require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  const int level = priority == Priority::kHighest ? highest : lowest;
  require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, level), "cudaStreamCreateWithPriority");
}

Stream::~Stream() {
  give_back(device_, [&] { return cudaStreamDestroy(stream_); });
}

Event::Event() : device_(current_gpu()) {
  require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

Event::~Event() {
  give_back(device_, [&] { return cudaEventDestroy(event_); });
}

}  // namespace blockstep::cuda
