#include "driver.h"

#include <atomic>

#include "call.h"

namespace blockstep::cuda {
namespace {

std::atomic<const Driver*> found{nullptr};

/// The address of a function, or null if this driver lacks it.
template <class Function>
Function look_up(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result);
#endif
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return reinterpret_cast<Function>(function);
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return nullptr;
}

template <class Function>
Function need(const char* name) {
  if (const auto function = look_up<Function>(name)) return function;
  throw Error{kCuda, std::string("cudaGetDriverEntryPoint failed: this driver has no ") + name};
}

}  // namespace

const Driver& driver() {
  if (const Driver* known = found.load(std::memory_order_acquire)) return *known;
  auto* const fresh = new Driver{
      need<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain"),
      need<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent"),
      need<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent"),
      need<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent"),
      need<PFN_cuCtxGetDevice_v2000>("cuCtxGetDevice"),
      need<PFN_cuStreamQuery_v2000>("cuStreamQuery"),
      need<PFN_cuEventQuery_v2000>("cuEventQuery"),
      look_up<PFN_cuDeviceGetAttribute_v2000>("cuDeviceGetAttribute"),
      look_up<PFN_cuStreamWriteValue64_v11070>("cuStreamWriteValue64"),
  };
  const Driver* before = nullptr;
  if (found.compare_exchange_strong(before, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;  // another thread was faster
  return *before;
}

}  // namespace blockstep::cuda
