#include "forward.h"

#include "../../cuda/kernels/launch.cuh"
#include "../../cuda/base/shape.h"

namespace blockstep::test {
namespace {

__global__ void __launch_bounds__(cuda::kThreads) copy_words(const u32* from, u32* to, u64 words) {
  for (u64 i = blockIdx.x * cuda::kThreads + threadIdx.x; i < words; i += u64{gridDim.x} * cuda::kThreads) to[i] = from[i];
}

}  // namespace

const void* copy_words_kernel() {
  static const void* const kernel = cuda::address(&copy_words);
  return kernel;
}

}  // namespace blockstep::test
