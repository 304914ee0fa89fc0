// Checked CUDA calls, and classes that own what CUDA gives out: memory, streams, events.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "../../core/base/types.h"
#include "../../base/error.h"

namespace blockstep::cuda {

/// A CUDA error in words: its name, its number and what it means.
inline std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + " (" + std::to_string(static_cast<int>(error)) +
         "): " + cudaGetErrorString(error);
}

/// Checks the result of a CUDA call. @throws Error kCuda that names the call, `what`
inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // so that a later cudaGetLastError() does not return this error again
  throw Error{kCuda, std::string(what) + " failed: " + describe(error)};
}

/// Asks whether a stream has done its work: cudaSuccess, cudaErrorNotReady, or the error of the work. The error is
/// cleared here, because the next query() of a lost device returns it again.
inline cudaError_t query(cudaStream_t stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status;
}

/// Makes a GPU the current one of this thread while the object lives, then the former GPU again: an executor in the
/// same thread may use another GPU.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    require(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ == device) return;
    require(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// As require(), for an allocation of `bytes` bytes. @throws Error kNoMemory if there is not enough memory, otherwise
/// kCuda
void require_memory(cudaError_t error, u64 bytes, const char* call, const char* where);

/// To be called when work on a GPU does not end. CUDA frees memory only when all work under way is done, so freeing
/// would wait for ever. From now on free_device() and free_pinned() free nothing in this process.
void stop_freeing();
/// cudaFree() and cudaFreeHost(), unless stop_freeing() was called. `memory` may be null.
void free_device(void* memory);
void free_pinned(void* memory);

/// Device memory. @throws Error kNoMemory, kCuda
class DeviceMemory {
 public:
  explicit DeviceMemory(u64 bytes) : bytes_(bytes) {
    require_memory(cudaMalloc(&base_, bytes), bytes, "cudaMalloc", "on the GPU");
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { free_device(base_); }

  u8* base() const { return static_cast<u8*>(base_); }
  u64 bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;
  u64 bytes_;
};

/// Zeroed, pinned memory of the host that every GPU can read and write. It is not write-combined, because the host
/// reads it.
/// @throws Error kNoMemory, kCuda
class MappedMemory {
 public:
  explicit MappedMemory(u64 bytes);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() { free_pinned(base_); }

  u8* base() const { return static_cast<u8*>(base_); }
  /// The address by which a GPU reaches the byte that the host has at `address`.
  template <class T>
  T* on_device(T* address) const {
    return reinterpret_cast<T*>(device_base_ + (reinterpret_cast<u8*>(address) - base()));
  }
  u64 bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;
  u8* device_base_ = nullptr;
  u64 bytes_;
};

/// A stream that this object owns. It has the highest priority, so that a small kernel does not wait behind a forward
/// pass, and it is not ordered with the default stream.
class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event that this object owns, without a time stamp.
class Event {
 public:
  Event() { require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace blockstep::cuda
