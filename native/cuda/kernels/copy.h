// The kernel that copies many small blocks: what it is launched with.
#pragma once

#include "../base/shape.h"

namespace blockstep::cuda {

/// One block that is copied, by its ids.
struct CopyPair {
  u32 source;
  u32 target;
};

/// The arguments of a launch, as part of the launch: nothing of them needs to outlive the call.
template <u32 Pairs>
struct CopyLetter {
  const u8* source;  // block 0, as the GPU sees it; aligned to 16 bytes, as all blocks are
  u8* target;
  u32 quads;         // units of 16 bytes in a block
  u32 count;         // pairs that there are
  CopyPair pairs[Pairs];
};
constexpr u32 kSmallPairs = 509;
constexpr u32 kLargePairs = 4092;
static_assert(sizeof(CopyLetter<kSmallPairs>) == 4096);
static_assert(sizeof(CopyLetter<kLargePairs>) <= 32764);

/// Thread blocks of a copy: so few that a forward pass beside them is not kept waiting. Each has 32 KiB under way.
constexpr u32 kCopyBlocks = 8;
/// 16-byte accesses that a thread has under way: one over the bus takes a microsecond.
constexpr u32 kCopiesAtOnce = 8;

/// The kernels by address, as cudaLaunchKernel() wants them. The small letter is the beginning of the large one.
struct CopyKernels {
  const void* small;
  const void* large;
};
const CopyKernels& copy_kernels();

}  // namespace blockstep::cuda
