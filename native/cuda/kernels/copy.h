// The kernel that copies many small blocks, and its arguments.
#pragma once

#include "../base/shape.h"

namespace blockstep::cuda {

/// One block to copy: its id in the source and its id in the target.
struct CopyPair {
  u32 source;
  u32 target;
};

/// The arguments of a launch. CUDA copies them into the launch, so they need not outlive the call.
template <u32 Pairs>
struct CopyLetter {
  const u8* source;  // block 0, at its address for the GPU; all blocks are aligned to 16 bytes
  u8* target;
  u32 quads;         // number of 16-byte units in a block
  u32 count;         // pairs in use
  CopyPair pairs[Pairs];
};
constexpr u32 kSmallPairs = 509;
constexpr u32 kLargePairs = 4092;
static_assert(sizeof(CopyLetter<kSmallPairs>) == 4096);
static_assert(sizeof(CopyLetter<kLargePairs>) <= 32764);

/// Maximum number of thread blocks of a copy. They are few, so that a concurrent forward pass keeps
/// most of the GPU. Each thread block has 32 KiB outstanding.
constexpr u32 kCopyBlocks = 8;
/// Outstanding 16-byte accesses of a thread. Several overlap, because one access over the bus takes
/// a microsecond.
constexpr u32 kCopiesAtOnce = 8;

/// Addresses of the kernels, for cudaLaunchKernel(). A CopyLetter<kSmallPairs> has the layout of
/// the beginning of a CopyLetter<kLargePairs>.
struct CopyKernels {
  const void* small;
  const void* large;
};
const CopyKernels& copy_kernels();

}  // namespace blockstep::cuda
