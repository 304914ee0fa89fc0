#include "spin.h"

#include <cuda/atomic>
#include <cuda/ptx>

#include "../../cuda/base/gpu.h"
#include "../../cuda/base/shape.h"
#include "../../cuda/kernels/launch.cuh"

namespace blockstep::test {
namespace {

using Word = ::cuda::atomic_ref<u64, ::cuda::thread_scope_system>;

__global__ void __launch_bounds__(cuda::kThreads) spin(SpinWords* words, u64 nanoseconds) {
  const u64 start = ::cuda::ptx::get_sreg_globaltimer();
  if (threadIdx.x == 0) Word(words->begun).fetch_add(1, ::cuda::memory_order_relaxed);
  while (Word(words->end).load(::cuda::memory_order_relaxed) == 0) {
    if (::cuda::ptx::get_sreg_globaltimer() - start > nanoseconds) return;
  }
}

}  // namespace

u32 launch_spin(SpinWords* on_device, u32 seconds, cudaStream_t stream) {
  const void* kernel = cuda::address(&spin);
  const int device = cuda::current_gpu();
  int processors = 0;
  int resident = 0;
  cuda::require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  cuda::require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, static_cast<int>(cuda::kThreads), 0),
                "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const u32 blocks = static_cast<u32>(processors * resident);
  u64 nanoseconds = u64{seconds} * 1000000000;
  void* arguments[] = {&on_device, &nanoseconds};
  cuda::require(cudaLaunchKernel(kernel, dim3(blocks), dim3(cuda::kThreads), arguments, 0, stream), "launch of spin");
  return blocks;
}

}  // namespace blockstep::test
