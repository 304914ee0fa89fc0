#include "copy.h"

#include "launch.cuh"

namespace blockstep::cuda {
namespace {

/// Copies whole blocks between any two memories that the GPU can reach. The quads (16 bytes) of all
/// pairs are numbered consecutively. So a thread block has the same number of outstanding accesses
/// for blocks of any size.
template <u32 Pairs>
__global__ void __launch_bounds__(kThreads) copy_blocks(const __grid_constant__ CopyLetter<Pairs> letter) {
  constexpr u32 kTile = kThreads * kCopiesAtOnce;
  const uint4* source = reinterpret_cast<const uint4*>(letter.source);
  uint4* target = reinterpret_cast<uint4*>(letter.target);
  const u64 end = u64{letter.count} * letter.quads;
  for (u64 tile = u64{blockIdx.x} * kTile; tile < end; tile += u64{gridDim.x} * kTile) {
    const u32 pair = static_cast<u32>(tile / letter.quads);
    const u32 within = static_cast<u32>(tile % letter.quads);
    const u32 room = end - tile < kTile ? static_cast<u32>(end - tile) : kTile;
    uint4 quad[kCopiesAtOnce];
    uint4* to[kCopiesAtOnce];
#pragma unroll
    for (u32 i = 0; i < kCopiesAtOnce; ++i) {
      const u32 at = i * kThreads + threadIdx.x;
      if (at >= room) continue;
      const CopyPair blocks = letter.pairs[pair + (within + at) / letter.quads];
      const u32 offset = (within + at) % letter.quads;
      quad[i] = __ldcv(source + u64{blocks.source} * letter.quads + offset);  // not cached: the host writes it
      to[i] = target + u64{blocks.target} * letter.quads + offset;
    }
#pragma unroll
    for (u32 i = 0; i < kCopiesAtOnce; ++i) {
      if (i * kThreads + threadIdx.x < room) *to[i] = quad[i];
    }
  }
}

}  // namespace

const CopyKernels& copy_kernels() {
  static const CopyKernels all{address(&copy_blocks<kSmallPairs>), address(&copy_blocks<kLargePairs>)};
  return all;
}

}  // namespace blockstep::cuda
