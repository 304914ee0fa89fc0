// WarpTeam: one warp as a team of core/, for logs of few entries.
#pragma once

#include "../../../../cuda/kernels/cta_team.cuh"

namespace blockstep::bench {

/// A thread block of one warp. Like CtaTeam, but every synchronising call is one __syncwarp().
class WarpTeam : public cuda::CtaTeam {
 public:
  __device__ explicit WarpTeam(Shared& shared) : CtaTeam(shared) {}

  __device__ static constexpr u32 size() { return 32; }
  __device__ void sync() { __syncwarp(); }

  __device__ u32 count(bool flag, u32& total) {
    const u32 raised = __ballot_sync(kAll, flag);
    total = static_cast<u32>(__popc(raised));
    sync();
    return static_cast<u32>(__popc(raised & ((1u << rank()) - 1)));
  }
  __device__ u32 scan(u32 value, u32& total) {
    u32 upto = value;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const u32 lower = __shfl_up_sync(kAll, upto, distance);
      if (rank() >= distance) upto += lower;
    }
    total = __shfl_sync(kAll, upto, 31);
    sync();
    return upto - value;
  }
  __device__ u64 sum(u64 value) {
#pragma unroll
    for (u32 distance = 16; distance != 0; distance /= 2) value += __shfl_down_sync(kAll, value, distance);
    value = __shfl_sync(kAll, value, 0);
    sync();
    return value;
  }

 private:
  static constexpr u32 kAll = 0xffffffffu;
};
static_assert(Team<WarpTeam>);

}  // namespace blockstep::bench
