// Contexts of the emulated GPUs, and the capture modes of threads. Like in CUDA, retaining the
// primary context of a GPU and cudaSetDevice() make a context. On GPU 0, so does any call that
// needs a context and finds none. Tests check which GPUs got a context.
#pragma once

#include "../include/cuda.h"
#include "../include/cuda_runtime_api.h"

struct CUctx_st {
  int device;
  bool primary;
};

namespace gpu_shim {

/// The primary context of a GPU, made if necessary; nullptr if another process owns the GPU
/// exclusively (fault `taken`).
CUcontext primary_context(int device);
/// The current context of this thread, or GPU 0's, which is made if necessary; nullptr as above.
CUcontext current_context();
/// The device of this thread's current context, 0 if it has none. Makes no context.
int current_device();
/// The last device of this thread's cudaSetDevice() calls, 0 if none. A pushed context may be on
/// another device, which cudaGetDevice() is not guaranteed to know.
int named_device();
void name_device(int device);
/// Pushes a context onto this thread's stack of current contexts, or pops the top. Returns the
/// previous top.
void push_context(CUcontext context);
CUcontext pop_context();
/// Replaces the top of the stack by a context.
void replace_context(CUcontext context);
CUcontext context_on_top();
/// For tests: whether a GPU has a context, and a context that is not the primary one.
bool has_context(int device);
CUcontext foreign_context(int device);

/// Begins or ends a capture of this thread in Global mode.
void begin_global_capture();
void end_global_capture(bool& was_spoiled);
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode);
/// Whether a call that is forbidden during a capture in Global mode is refused in this thread. If
/// so, that capture is invalidated.
bool refused_by_capture();
/// The same for a call that every capture mode of a thread forbids.
bool spoils_capture();

}  // namespace gpu_shim
