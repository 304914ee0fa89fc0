// The built-in functions and types that kernels use, over block.h.
#pragma once

#include <bit>
#include <thread>

#include "block.h"

inline unsigned __popc(unsigned bits) { return static_cast<unsigned>(std::popcount(bits)); }

inline void __syncwarp() { gpu_shim::block->warps[threadIdx.x / 32].barrier.arrive_and_wait(); }
inline unsigned __ballot_sync(unsigned, bool flag) {
  return gpu_shim::warp_exchange(flag, [](const std::uint64_t* said) {
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(said[lane]) << lane;
    return bits;
  });
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return gpu_shim::warp_exchange(
      value, [&](const std::uint64_t* said) { return static_cast<T>(said[lane < distance ? lane : lane - distance]); });
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return gpu_shim::warp_exchange(
      value, [&](const std::uint64_t* said) { return static_cast<T>(said[lane + distance > 31 ? lane : lane + distance]); });
}
template <class T>
T __shfl_sync(unsigned, T value, unsigned from) {
  return gpu_shim::warp_exchange(value, [&](const std::uint64_t* said) { return static_cast<T>(said[from % 32]); });
}

namespace gpu_shim {
/// Reads the prefetched memory, which must be GPU memory. A prefetch orders nothing and cannot
/// race, so the thread sanitizer ignores the read.
__attribute__((no_sanitize("thread"), noinline)) inline void touch(const void* address) { static_cast<void>(*static_cast<const volatile unsigned char*>(address)); }
/// A thread of a kernel waits for a thread of another block, which may have no processor.
inline void yield() { std::this_thread::yield(); }
/// A kernel that began early has waited for earlier kernels: see stream.h.
void open_memory();
}  // namespace gpu_shim

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <class T>
T __ldcv(const T* source) {
  return *source;
}
