// The emulated CUDA runtime: its calls over memory.h, stream.h and block.h. What is asynchronous there is so here; what
// copies from pageable memory has read it when it returns, as CUDA promises.
#include <cstring>

#include "../include/cudaTypedefs.h"
#include "calls.h"

using namespace gpu_shim;

namespace {

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  if (begin() != cudaSuccess) return CUDA_ERROR_LAUNCH_FAILED;
  auto* word = reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(address));
  if (!stream || address % 8 != 0 || kind_of(word, 8) == Kind::kUnknown) return CUDA_ERROR_INVALID_VALUE;
  const auto store = [=] {
    if (!faults().mute) __atomic_store_n(word, value, __ATOMIC_RELEASE);
  };
  of(stream).push({store, nullptr, nullptr});
  return CUDA_SUCCESS;
}

CUresult device_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = faults().storeless ? 0 : 1;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated GPU"; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = device_lost() ? cudaErrorLaunchFailure : last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return device_lost() ? cudaErrorLaunchFailure : last_error; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = faults().none ? 0 : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = begin();
  *count = error == cudaSuccess ? static_cast<int>(faults().devices) : 0;
  return note(error);
}
cudaError_t cudaGetDevice(int* device) {
  read_faults();  // the first call of many a piece of work
  *device = current_device;
  return note(begin(Call::kQuestion));
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = begin()) return note(error);
  if (device < 0 || static_cast<std::uint64_t>(device) >= faults().devices) return note(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 1;
  return note(begin());
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", 0, 0, 4, static_cast<std::size_t>(faults().memory)};
  return note(begin());
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return note(begin());
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = begin()) return note(error);
  wait_for_all();
  return note(begin(Call::kUncounted));
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = static_cast<std::size_t>(faults().memory);
  *free = *total - device_bytes_in_use();
  return note(begin());
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  if (const cudaError_t error = begin()) return note(error);
  *function = nullptr;
  if (std::strcmp(symbol, "cuStreamWriteValue64") == 0) *function = reinterpret_cast<void*>(&write_value);
  if (std::strcmp(symbol, "cuDeviceGetAttribute") == 0) *function = reinterpret_cast<void*>(&device_attribute);
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

}  // extern "C"
