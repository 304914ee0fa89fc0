// The emulated CUDA runtime: its calls over memory.h, stream.h and block.h. Calls that are
// asynchronous in CUDA are asynchronous here. Copies from pageable memory have read it when they
// return, as CUDA guarantees.
#include <cstring>

#include "../include/cudaTypedefs.h"
#include "calls.h"

using namespace gpu_shim;

namespace {

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  if (begin() != cudaSuccess) return CUDA_ERROR_LAUNCH_FAILED;
  if (is_foreign(stream)) return CUDA_ERROR_INVALID_VALUE;
  auto* word = reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(address));
  if (is_default(stream) || address % 8 != 0 || kind_of(word, 8) == Kind::kUnknown) return CUDA_ERROR_INVALID_VALUE;
  const auto store = [=] {
    const Faults now = faults();
    const auto write = [=] { __atomic_store_n(word, value, __ATOMIC_RELEASE); };
    if (now.mute) return;
    if (now.tardy == 0) return write();
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(now.tardy));
      write();
    }).detach();
  };
  of(stream).push({store, nullptr, nullptr});
  return CUDA_SUCCESS;
}

CUresult device_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = faults().storeless ? 0 : 1;
  return CUDA_SUCCESS;
}

/// Driver and runtime errors have the same numbers. Driver errors are not kept for
/// cudaGetLastError().
CUresult driver(cudaError_t error) { return static_cast<CUresult>(error); }

CUresult retain(CUcontext* context, CUdevice device) {
  if (const cudaError_t error = begin(Call::kAny, Needs::kDriver)) return driver(error);
  if (device < 0 || static_cast<std::uint64_t>(device) >= faults().devices) return driver(cudaErrorInvalidDevice);
  *context = primary_context(device);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}
CUresult get_current(CUcontext* context) {
  *context = context_on_top();
  return CUDA_SUCCESS;
}
CUresult push_current(CUcontext context) {
  read_faults();  // the first call of many operations
  if (const cudaError_t error = begin(Call::kQuestion, Needs::kDriver)) return driver(error);
  push_context(context);
  return CUDA_SUCCESS;
}
CUresult pop_current(CUcontext* context) {
  *context = pop_context();
  return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult get_device(CUdevice* device) {
  read_faults();
  if (const cudaError_t error = begin(Call::kQuestion, Needs::kDriver)) return driver(error);
  if (!context_on_top()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current_device();
  return CUDA_SUCCESS;
}
CUresult query_stream(CUstream stream) {
  if (const cudaError_t error = begin(Call::kQuestion, Needs::kNoCapture)) return driver(error);
  if (of(stream).capturing()) return driver(cudaErrorStreamCaptureUnsupported);
  return of(stream).idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult query_event(CUevent event) {
  if (const cudaError_t error = begin(Call::kQuestion, Needs::kNoCapture)) return driver(error);
  return !event->signal || is_done(*event->signal) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
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
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
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
  const std::uint64_t old = faults().old;
  *version = faults().none ? 0 : old != 0 ? static_cast<int>(old) : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = begin(Call::kAny, Needs::kDriver);
  *count = error == cudaSuccess ? static_cast<int>(faults().devices) : 0;
  return note(error);
}
cudaError_t cudaGetDevice(int* device) {
  read_faults();
  *device = named_device();
  return note(begin(Call::kQuestion, Needs::kDriver));
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = begin(Call::kAny, Needs::kDriver)) return note(error);
  if (device < 0 || static_cast<std::uint64_t>(device) >= faults().devices) return note(cudaErrorInvalidDevice);
  CUcontext context = primary_context(device);
  if (!context) return note(cudaErrorDevicesUnavailable);
  replace_context(context);
  name_device(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 1;
  if (attribute == cudaDevAttrMemoryPoolsSupported) *value = !faults().poolless;
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = 9;
  return note(begin(Call::kAny, Needs::kDriver));
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", 0, 0, 4, static_cast<std::size_t>(faults().memory)};
  return note(begin(Call::kAny, Needs::kDriver));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return note(begin());
}
/// No thread, in any mode, can wait for a device with a capturing stream.
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = begin()) return note(error);
  if (spoils_capture()) return note(cudaErrorStreamCaptureUnsupported);
  wait_while_spinning();
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
  if (const cudaError_t error = begin(Call::kAny, Needs::kDriver)) return note(error);
  const struct {
    const char* name;
    void* function;
  } all[] = {{"cuStreamWriteValue64", reinterpret_cast<void*>(&write_value)},
             {"cuDeviceGetAttribute", reinterpret_cast<void*>(&device_attribute)},
             {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&retain)},
             {"cuCtxGetCurrent", reinterpret_cast<void*>(&get_current)},
             {"cuCtxPushCurrent", reinterpret_cast<void*>(&push_current)},
             {"cuCtxPopCurrent", reinterpret_cast<void*>(&pop_current)},
             {"cuCtxGetDevice", reinterpret_cast<void*>(&get_device)},
             {"cuStreamQuery", reinterpret_cast<void*>(&query_stream)},
             {"cuEventQuery", reinterpret_cast<void*>(&query_event)}};
  *function = nullptr;
  for (const auto& [name, address] : all) {
    if (std::strcmp(symbol, name) == 0) *function = address;
  }
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

}  // extern "C"
