// The sizes of launches.
#pragma once

#include "../../core/base/types.h"

namespace blockstep::cuda {

/// Threads per thread block, in whole warps. Tests that run each of them as a host thread use
/// fewer.
#if defined(BLOCKSTEP_BLOCK_THREADS)
constexpr u32 kThreads = BLOCKSTEP_BLOCK_THREADS;
#else
constexpr u32 kThreads = 256;
#endif

/// Thread blocks that compute a digest, or initialise a state, together.
constexpr u32 kParts = 64;

static_assert(kThreads % 32 == 0 && kThreads <= 1024 && kParts <= kThreads);

}  // namespace blockstep::cuda
