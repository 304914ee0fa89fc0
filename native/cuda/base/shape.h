// The shape of the launches.
#pragma once

#include "../../core/base/types.h"

namespace blockstep::cuda {

/// Threads of a thread block, in whole warps. The tests take fewer, where each is a thread of the host.
#if defined(BLOCKSTEP_BLOCK_THREADS)
constexpr u32 kThreads = BLOCKSTEP_BLOCK_THREADS;
#else
constexpr u32 kThreads = 256;
#endif

/// Thread blocks that make a digest or initialise a state together.
constexpr u32 kParts = 64;

static_assert(kThreads % 32 == 0 && kThreads <= 1024 && kParts <= kThreads);

}  // namespace blockstep::cuda
