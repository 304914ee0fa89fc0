// fetch(): copies words from host memory over the bus.
#pragma once

#include "../base/shape.h"

namespace blockstep::cuda {

/// Copies `words` words from mapped memory, by one thread block. A read over the bus takes a
/// microsecond at any size. Each read therefore takes 16 bytes, and each thread has eight
/// outstanding reads. Both sides are aligned to 16 bytes, and have room for `words` rounded up to
/// 16 bytes. When fetch() returns, all threads of the thread block see all words.
__device__ inline void fetch(u32* to, const u32* mapped, u32 words) {
  constexpr u32 kAtOnce = 8;
  const uint4* source = reinterpret_cast<const uint4*>(mapped);
  uint4* target = reinterpret_cast<uint4*>(to);
  const u32 count = (words + 3) / 4;
  for (u32 base = 0; base < count; base += kThreads * kAtOnce) {
    uint4 quad[kAtOnce];
#pragma unroll
    for (u32 i = 0; i < kAtOnce; ++i) {
      const u32 at = base + i * kThreads + threadIdx.x;
      if (at < count) quad[i] = __ldcv(source + at);  // not cached: slots are reused
    }
#pragma unroll
    for (u32 i = 0; i < kAtOnce; ++i) {
      const u32 at = base + i * kThreads + threadIdx.x;
      if (at < count) target[at] = quad[i];
    }
  }
  __syncthreads();
}

}  // namespace blockstep::cuda
