// Words of the host's memory, read over the bus.
#pragma once

#include "../base/shape.h"

namespace blockstep::cuda {

/// Copies from mapped memory by one thread block, 16 bytes at a time and several of them under way at once: a read over
/// the bus takes a microsecond, whatever its size. Both sides are aligned, and rounded up to 16 bytes. Ends synchronised.
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
      if (at < count) quad[i] = __ldcv(source + at);  // never from a cache: the slot was used before
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
