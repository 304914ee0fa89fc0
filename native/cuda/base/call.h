// Checked CUDA calls.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <string>

#include "../../base/error.h"
#include "../../core/base/types.h"

namespace blockstep::cuda {

/// Describes a CUDA error: its name, its number and its meaning.
inline std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + " (" + std::to_string(static_cast<int>(error)) +
         "): " + cudaGetErrorString(error);
}

/// Checks the result of a CUDA call. @throws Error kCuda that names the call, `what`
inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  // So that a later cudaGetLastError() does not return this error.
  static_cast<void>(cudaGetLastError());
  throw Error{kCuda, std::string(what) + " failed: " + describe(error)};
}

/// Like require(), for an allocation of `bytes` bytes. @throws Error kNoMemory if there is not
/// enough memory, otherwise kCuda
inline void require_memory(cudaError_t error, u64 bytes, const char* call, const char* where) {
  if (error != cudaErrorMemoryAllocation) return require(error, call);
  static_cast<void>(cudaGetLastError());
  throw Error{kNoMemory, "could not allocate " + std::to_string(bytes) + " bytes " + where + ": " + describe(error)};
}

/// Loads kernels now. CUDA would load a kernel at its first use, and might then wait for other work
/// on the GPU.
/// @throws Error kCuda
inline void load(std::initializer_list<const void*> kernels) {
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes;
    require(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
  }
}

}  // namespace blockstep::cuda
