// The GPUs of this process: the primary context of each, and how a thread comes to it and back.
#pragma once

#include "call.h"
#include "driver.h"

namespace blockstep::cuda {

/// What the process keeps of one GPU from its first use to its end.
struct Gpu {
  CUcontext context;      // the primary context, which the runtime uses too
  cudaStream_t service;   // frees and allocates memory; nothing in it waits for a kernel
  cudaMemPool_t pool;     // of its memory; null where the GPU has no pools
};

/// While the object lives, the primary context of a GPU is the current one of this thread, and no call kills a capture that
/// another thread makes in Global mode, nor is refused because of one. Then all is as before. An executor in the same thread
/// may use another GPU or a context of its own. No other GPU gets a context: cudaSetDevice() would make one.
class OnDevice {
 public:
  /// The first call for a GPU makes its context, which takes some tenths of a second. @throws Error kCuda
  explicit OnDevice(int device);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();

  const Gpu& gpu() const { return gpu_; }

 private:
  const Gpu& gpu_;
  bool pushed_ = false;
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeRelaxed;
};

/// The GPU whose context is the current one of this thread. cudaGetDevice() may say which one cudaSetDevice() has named.
/// @throws Error kCuda
int current_gpu();

}  // namespace blockstep::cuda
