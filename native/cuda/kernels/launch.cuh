// What kernels share: their address for cudaLaunchKernel(), the words by which a kernel reports its end, and what they tell the
// GPU ahead of time.
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

/// Writes one word that the host reads. kRelease: whoever sees it sees all that this thread wrote before it, or knew of. That
/// waits for those writes to come over the bus. kRelaxed: the word stands for itself.
enum class Order { kRelaxed, kRelease };
template <Order kOrder>
__device__ void tell(const std::atomic<u64>& where, u64 word) {
  u64& target = *reinterpret_cast<u64*>(const_cast<std::atomic<u64>*>(&where));
  ::cuda::atomic_ref<u64, ::cuda::thread_scope_system>(target).store(
      word, kOrder == Order::kRelease ? ::cuda::memory_order_release : ::cuda::memory_order_relaxed);
}

/// Completes a piece of work. One thread calls it, behind a barrier: the barrier has made the writes of the whole thread block
/// visible to this thread, so a release covers them all. It is needed where the host reads anything else, or writes what the
/// kernel read.
template <Order kOrder>
__device__ void complete(Completion* completion, u32 number, u32 fault) {
  tell<kOrder>(completion->word, completion_word(number, fault));
}

/// The same with a digest. Each word carries the number.
template <Order kOrder>
__device__ void complete(Completion* completion, u32 number, u32 fault, u64 digest) {
  for (u32 which = 0; which < 2; ++which) tell<Order::kRelaxed>(completion->half[which], half_word(number, digest, which));
  complete<kOrder>(completion, number, fault);
}

/// Has a line of global memory brought into the second-level cache, and waits for nothing.
__device__ inline void prefetch(const void* address) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
  gpu_shim::touch(address);
#endif
}

/// A pointer of which the compiler does not know that it leads to a parameter of the kernel. It would read that memory through
/// the port for constants, which serves one address a warp at a time.
template <class T>
__device__ const T* through_memory(const T* pointer) {
#if defined(__CUDACC__)
  asm volatile("" : "+l"(pointer));
#endif
  return pointer;
}

/// In a loop that waits for another thread block. A GPU runs that one meanwhile, whatever this one does.
__device__ inline void wait_a_little() {
#if !defined(__CUDACC__)
  gpu_shim::yield();
#endif
}

/// The next kernel of the stream may begin now, if it was launched so: it waits by itself, in await_earlier_kernels(), before
/// it reads what this one writes.
__device__ inline void let_next_kernel_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/// Waits until all kernels before this one are done, and sees what they wrote. Does nothing in a kernel that began behind them.
__device__ inline void await_earlier_kernels() {
#if !defined(__CUDACC__)
  gpu_shim::open_memory();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace blockstep::cuda
