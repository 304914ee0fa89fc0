// The GPUs of this process: the primary context of each GPU, and how a thread makes it current and
// restores the previous context.
#pragma once

#include "call.h"
#include "driver.h"

namespace blockstep::cuda {

/// The objects of one GPU that the process keeps from its first use to the end.
struct Gpu {
  CUcontext context;      // primary context, which the runtime uses too
  cudaStream_t service;   // frees and allocates memory; no work in it waits for a kernel
  cudaMemPool_t pool;     // memory pool; null if the GPU supports none
};

/// While the object lives, the primary context of a GPU is current for this thread. CUDA calls then
/// neither invalidate a capture that another thread makes in Global mode, nor are refused because
/// of it. The destructor restores the previous state. An executor in the same thread may use
/// another GPU or its own context. No other GPU gets a context, as cudaSetDevice() would make.
class OnDevice {
 public:
  /// The first call for a GPU makes its context, which takes some tenths of a second. @throws Error
  /// kCuda
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

/// The GPU whose context is current for this thread. cudaGetDevice() may instead return the last
/// argument of cudaSetDevice().
/// @throws Error kCuda
int current_gpu();

}  // namespace blockstep::cuda
