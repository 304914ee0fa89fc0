// CtaTeam: one thread block (CTA) as a team of core/. All warp primitives are in this file; core/
// uses none.
#pragma once

#include <cuda/atomic>

#include "../../core/base/team.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// One member of a thread block of kThreads threads. Every synchronising call is exactly one
/// __syncthreads(). The warps exchange numbers through two alternating buffers, so that no warp can
/// overwrite numbers that a slower warp still reads. The atomics are relaxed and of block scope,
/// because only this thread block uses the words.
class CtaTeam {
 public:
  static constexpr u32 kWarps = kThreads / 32;

  /// In shared memory, one object for the whole thread block. Needs no initialisation.
  struct Shared {
    u64 of_warp[2][kWarps];
  };

  __device__ explicit CtaTeam(Shared& shared) : shared_(shared) {}

  __device__ u32 rank() const { return threadIdx.x; }
  __device__ static constexpr u32 size() { return kThreads; }
  __device__ void sync() { __syncthreads(); }

  __device__ u32 count(bool flag, u32& total) {
    const u32 raised = __ballot_sync(kAll, flag);
    const u32 before = __popc(raised & ((1u << lane()) - 1));
    return before + across_warps<u32>(__popc(raised), lane() == 0, total);
  }

  __device__ u32 scan(u32 value, u32& total) {
    u32 upto = value;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const u32 lower = __shfl_up_sync(kAll, upto, distance);
      if (lane() >= distance) upto += lower;
    }
    return upto - value + across_warps<u32>(upto, lane() == 31, total);
  }

  __device__ u64 sum(u64 value) {
#pragma unroll
    for (u32 distance = 16; distance != 0; distance /= 2) value += __shfl_down_sync(kAll, value, distance);
    u64 total;
    across_warps<u64>(value, lane() == 0, total);
    return total;
  }

  __device__ u32 load(const u32* word) { return at(const_cast<u32*>(word)).load(kRelaxed); }
  __device__ void store(u32* word, u32 value) { at(word).store(value, kRelaxed); }
  __device__ u32 exchange(u32* word, u32 value) { return at(word).exchange(value, kRelaxed); }
  __device__ u32 fetch_add(u32* word, u32 value) { return at(word).fetch_add(value, kRelaxed); }
  __device__ u32 fetch_sub(u32* word, u32 value) { return at(word).fetch_sub(value, kRelaxed); }
  __device__ u32 fetch_max(u32* word, u32 value) { return at(word).fetch_max(value, kRelaxed); }
  __device__ u32 fetch_or(u32* word, u32 value) { return at(word).fetch_or(value, kRelaxed); }
  __device__ u32 fetch_and(u32* word, u32 value) { return at(word).fetch_and(value, kRelaxed); }

 private:
  static constexpr u32 kAll = 0xffffffffu;
  static constexpr auto kRelaxed = ::cuda::memory_order_relaxed;
  using Word = ::cuda::atomic_ref<u32, ::cuda::thread_scope_block>;

  __device__ static Word at(u32* word) { return Word(*word); }
  __device__ static u32 lane() { return threadIdx.x % 32; }
  __device__ static u32 warp() { return threadIdx.x / 32; }

  /// Sums one number per warp, with one barrier. In each warp, the lane with `speaks` provides the
  /// warp's number. Returns the sum over the earlier warps, and in `total` the sum over all warps.
  template <class Number>
  __device__ Number across_warps(Number of_this_warp, bool speaks, Number& total) {
    u64(&of_warp)[kWarps] = shared_.of_warp[turn_];
    turn_ ^= 1;
    if (speaks) of_warp[warp()] = of_this_warp;
    __syncthreads();
    Number before = 0;
    total = 0;
#pragma unroll
    for (u32 i = 0; i < kWarps; ++i) {
      const Number number = static_cast<Number>(of_warp[i]);
      if (i < warp()) before += number;
      total += number;
    }
    return before;
  }

  Shared& shared_;
  u32 turn_ = 0;
};
static_assert(Team<CtaTeam>);

}  // namespace blockstep::cuda
