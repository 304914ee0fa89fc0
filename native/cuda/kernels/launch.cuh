// Code that kernels share: their address for cudaLaunchKernel(), the words by which a kernel
// reports its end, and hints to the GPU.
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
  return gpu_shim::launchable(kernel);  // the tests run kernels on host threads
#endif
}

/// Writes one word that the host reads. kRelease: a reader that sees the word also sees all earlier
/// writes that this thread made or knew of. This waits until those writes have crossed the bus.
/// kRelaxed: the word has no order with other writes.
enum class Order { kRelaxed, kRelease };
template <Order kOrder>
__device__ void tell(const std::atomic<u64>& where, u64 word) {
  u64& target = *reinterpret_cast<u64*>(const_cast<std::atomic<u64>*>(&where));
  ::cuda::atomic_ref<u64, ::cuda::thread_scope_system>(target).store(
      word, kOrder == Order::kRelease ? ::cuda::memory_order_release : ::cuda::memory_order_relaxed);
}

/// Completes a piece of work. One thread calls it after a barrier. The barrier has made the writes
/// of the whole thread block visible to this thread, so a release covers all of them. A release is
/// needed if the host reads any other result, or writes memory that the kernel read.
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

/// Prefetches a line of global memory into the second-level cache, without waiting.
__device__ inline void prefetch(const void* address) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
  gpu_shim::touch(address);
#endif
}

/// Hides from the compiler that a pointer points to a parameter of the kernel. Otherwise it would
/// read that memory through the constant cache, which serves one address a warp at a time.
template <class T>
__device__ const T* through_memory(const T* pointer) {
#if defined(__CUDACC__)
  asm volatile("" : "+l"(pointer));
#endif
  return pointer;
}

/// For a loop that waits for another thread block. The GPU runs that block meanwhile in any case.
__device__ inline void wait_a_little() {
#if !defined(__CUDACC__)
  gpu_shim::yield();
#endif
}

/// Allows the next kernel of the stream to begin now, if it was launched early. That kernel itself
/// waits, in await_earlier_kernels(), before it reads the writes of this kernel.
__device__ inline void let_next_kernel_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/// Waits until all earlier kernels are done, and sees their writes. Does nothing in a kernel that
/// began after them.
__device__ inline void await_earlier_kernels() {
#if !defined(__CUDACC__)
  gpu_shim::open_memory();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace blockstep::cuda
