// What kernels share: their address for cudaLaunchKernel(), and the store by which a kernel reports its end.
#pragma once

#include <cuda/atomic>

#include "../../host/device/device.h"

namespace blockstep::cuda {

/// The address of a kernel, for cudaLaunchKernel().
template <class... Arguments>
const void* address(void (*kernel)(Arguments...)) {
#if defined(__CUDACC__)
  return reinterpret_cast<const void*>(kernel);
#else
  return gpu_shim::launchable(kernel);  // the tests run kernels on threads of the host
#endif
}

/// Completes a piece of work. One thread calls it, behind a barrier. The barrier has made the writes of the whole
/// thread block visible to this thread, so the release of its store covers them all.
__device__ inline void complete(Completion* completion, u32 number, u32 fault, u64 digest) {
  completion->digest = digest;
  u64& word = *reinterpret_cast<u64*>(&completion->word);
  ::cuda::atomic_ref<u64, ::cuda::thread_scope_system>(word).store(completion_word(number, fault),
                                                                   ::cuda::memory_order_release);
}

}  // namespace blockstep::cuda
