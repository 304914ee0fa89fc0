// What the emulated calls of CUDA share: how each begins, what it reports, and the streams they name.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "../include/cuda_runtime_api.h"
#include "faults.h"
#include "memory.h"
#include "stream.h"

using gpu_shim::Signal;
using gpu_shim::Step;
using gpu_shim::Stream;

struct CUstream_st {
  Stream stream;
};
struct CUevent_st {
  bool timed = false;
  std::shared_ptr<Signal> signal;  // of its last record; none: it counts as done
};
struct CUgraph_st {
  std::vector<Step> steps;
};
struct CUgraphExec_st {
  std::vector<Step> steps;
};

namespace gpu_shim {

inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local int current_device = 0;

inline cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// A question counts by itself, since how many of them there are is a matter of time. What gives back and what ends a wait
/// does not count.
enum class Call { kAny, kQuestion, kUncounted };

/// What every call begins with: a driver, and a device that is there.
inline cudaError_t begin(Call call = Call::kAny) {
  // Who only asks whether held work is done has to see that it is held no more.
  if (call == Call::kAny || (call == Call::kQuestion && faults().hold)) read_faults();
  const bool fails = call != Call::kUncounted && fails_now(call == Call::kQuestion);
  if (faults().none) return cudaErrorInsufficientDriver;
  if (device_lost()) return cudaErrorLaunchFailure;
  return fails ? cudaErrorInvalidValue : cudaSuccess;
}

inline Stream& default_stream() {
  static Stream* const stream = new Stream;
  return *stream;
}
inline Stream& of(cudaStream_t stream) { return stream ? stream->stream : default_stream(); }

inline bool is_pageable(const void* address, std::size_t bytes) { return kind_of(address, bytes) == Kind::kUnknown; }

/// @param at_once the source may be read now, whatever is before it in the stream: so that is done
inline cudaError_t copy(void* target, const void* source, std::size_t bytes, Stream& stream, bool at_once = false) {
  if (bytes == 0) return cudaSuccess;
  if (!target || !source) return cudaErrorInvalidValue;
  if (!stream.capturing() && (at_once || is_pageable(source, bytes))) {
    const Working working;
    const auto* first = static_cast<const char*>(source);
    auto kept = std::make_shared<std::vector<char>>(first, first + bytes);
    stream.push({[=] { std::memcpy(target, kept->data(), bytes); }, nullptr, nullptr});
  } else {
    stream.push({[=] { std::memcpy(target, source, bytes); }, nullptr, nullptr});
    if (!stream.capturing() && is_pageable(target, bytes)) stream.wait();
  }
  return device_lost() ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace gpu_shim
