// Shared code of the emulated CUDA calls: how each begins, how it reports errors, and the streams
// that it names.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../include/cuda_runtime_api.h"
#include "context.h"
#include "faults.h"
#include "memory.h"
#include "stream.h"

using gpu_shim::Signal;
using gpu_shim::Step;
using gpu_shim::Stream;

struct CUstream_st {
  Stream stream;
  CUcontext context = nullptr;
  bool non_blocking = false;
  bool captures_globally = false;
  int priority = 0;
};
struct CUevent_st {
  bool timed = false;
  CUcontext context = nullptr;
  bool captured = false;           // recorded in a capturing stream
  std::shared_ptr<Signal> signal;  // of its last record; none: counts as done
};
struct CUgraph_st {
  std::vector<Step> steps;
};
struct CUgraphExec_st {
  std::vector<Step> steps;
};

namespace gpu_shim {

inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// Queries are counted separately, because their number depends on timing. Calls that free
/// resources or end a wait are not counted.
enum class Call { kAny, kQuestion, kUncounted };
/// The requirements of a call: only a driver; a context, which is made if there is none; a context
/// without a capture in Global mode.
enum class Needs { kDriver, kContext, kNoCapture };

/// Every call begins with this check of the driver and the device.
inline cudaError_t begin(Call call = Call::kAny, Needs needs = Needs::kContext) {
  // A query for held work must see that it is no longer held.
  if (call == Call::kAny || (call == Call::kQuestion && (faults().hold || faults().spin))) read_faults();
  const bool fails = call != Call::kUncounted && fails_now(call == Call::kQuestion);
  if (faults().none || faults().old != 0) return cudaErrorInsufficientDriver;
  if (device_lost()) return cudaErrorLaunchFailure;
  if (fails) return cudaErrorInvalidValue;
  if (needs != Needs::kDriver && !current_context()) return cudaErrorDevicesUnavailable;
  return needs == Needs::kNoCapture && refused_by_capture() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

/// The legacy default stream has two names.
inline bool is_default(cudaStream_t stream) { return !stream || stream == cudaStreamLegacy; }

/// A stream and an event are usable only in their own context.
inline bool is_foreign(cudaStream_t stream) { return !is_default(stream) && stream->context != current_context(); }
inline bool is_foreign(cudaEvent_t event) { return event->context != current_context(); }

/// Waits before calls that CUDA may not begin, or may not complete, while a foreign kernel holds
/// the whole GPU.
inline void wait_while_spinning() {
  count_call_that_may_wait();
  while (read_faults(), faults().spin) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

inline Stream& default_stream() {
  static Stream* const stream = new Stream;
  return *stream;
}
inline Stream& of(cudaStream_t stream) { return is_default(stream) ? default_stream() : stream->stream; }

/// The streams that the legacy default stream waits for.
inline std::vector<Stream*>& blocking_streams() {
  static auto* const all = new std::vector<Stream*>;
  return *all;
}
inline std::mutex& blocking_mutex() {
  static auto* const one = new std::mutex;
  return *one;
}
inline void wait_for_blocking_streams() {
  const std::lock_guard lock(blocking_mutex());
  for (const Stream* stream : blocking_streams()) stream->wait();
}

inline bool is_pageable(const void* address, std::size_t bytes) { return kind_of(address, bytes) == Kind::kUnknown; }

/// @param at_once the source may be read now, independent of earlier work in the stream, so it is
inline cudaError_t copy(void* target, const void* source, std::size_t bytes, Stream& stream, bool at_once = false) {
  if (bytes == 0) return cudaSuccess;
  if (!target || !source) return cudaErrorInvalidValue;
  if (!stream.capturing() && (at_once || is_pageable(source, bytes))) {
    const Working working;
    const auto* first = static_cast<const char*>(source);
    auto kept = std::make_shared<std::vector<char>>(first, first + bytes);
    Step step{[=] { std::memcpy(target, kept->data(), bytes); }, nullptr, nullptr};
    step.is_late = &stream == &default_stream();
    stream.push(std::move(step));
  } else {
    stream.push({[=] { std::memcpy(target, source, bytes); }, nullptr, nullptr});
    if (!stream.capturing() && is_pageable(target, bytes)) stream.wait();
  }
  return device_lost() ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace gpu_shim
