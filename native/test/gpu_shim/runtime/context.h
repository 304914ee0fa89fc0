// Contexts of the emulated GPUs, and the capture modes of threads. A context is made as CUDA makes one: by whoever retains the
// primary one of a GPU, by cudaSetDevice(), and by any call that needs one and finds none, on GPU 0. Tests look at which GPUs got
// one.
#pragma once

#include "../include/cuda.h"
#include "../include/cuda_runtime_api.h"

struct CUctx_st {
  int device;
  bool primary;
};

namespace gpu_shim {

/// The primary context of a GPU, made if need be; nullptr if another process has the GPU for itself (fault `taken`).
CUcontext primary_context(int device);
/// The current context of this thread, or that of GPU 0, which is made; nullptr as above.
CUcontext current_context();
/// The device of the current context of this thread, 0 if it has none. Makes nothing.
int current_device();
/// The device that this thread has named by cudaSetDevice(), 0 if none. A context that was pushed need not be on it, and nobody
/// has promised that cudaGetDevice() knows of such a one.
int named_device();
void name_device(int device);
/// Makes a context the current one of this thread, on top of those that are, or takes the top away. Returns what was on top.
void push_context(CUcontext context);
CUcontext pop_context();
/// Makes a context the current one in the place of that on top.
void replace_context(CUcontext context);
CUcontext context_on_top();
/// For tests: whether a GPU has a context. And: a context that is not the primary one.
bool has_context(int device);
CUcontext foreign_context(int device);

/// Begins or ends a capture in Global mode by this thread.
void begin_global_capture();
void end_global_capture(bool& was_spoiled);
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode);
/// Whether a call that may not be made during a capture in Global mode is refused in this thread. Then that capture is spoiled.
bool refused_by_capture();
/// The same for a call that no mode of a thread excuses.
bool spoils_capture();

}  // namespace gpu_shim
