// Fetching ahead: a loop over blocks fetches what it looks at some items later, so that its cache misses overlap.
#pragma once

#include "../base/state.h"
#include "../base/team.h"

#if defined(__GNUC__) && !defined(__CUDACC__)
#define BLOCKSTEP_FETCH(address) __builtin_prefetch(address)
#else
#define BLOCKSTEP_FETCH(address) static_cast<void>(address)
#endif

namespace blockstep {

/// How many items ahead a loop fetches. Each step needs what the one before has fetched: a bucket, the first block of its
/// chain, the second one.
constexpr u32 kFar = 24;
constexpr u32 kMid = 16;
constexpr u32 kNear = 8;

/// Pools of fewer blocks lie in the caches, where fetching ahead only costs.
constexpr u32 kSmallPool = 1u << 16;

/// Whether loops fetch ahead. In teams of several the other members hide the wait.
template <Team T>
BLOCKSTEP_HD constexpr bool fetches_ahead(const T&, [[maybe_unused]] const State& state) {
  if constexpr (std::is_same_v<T, SoloTeam>) {
    return state.config.num_blocks >= kSmallPool;
  } else {
    return false;
  }
}

/// In round `i` of a loop over `count` items: fetches the line at address(i + ahead), and in the first round also those of
/// the items before that one. Not inlined, it would be dropped: a fetch is no effect that GCC knows of.
template <class Address>
BLOCKSTEP_HD BLOCKSTEP_INLINED inline void fetch(u32 i, u32 count, u32 ahead, const Address& address) {
  if (i == 0) {
    for (u32 at = 0; at < ahead && at < count; ++at) BLOCKSTEP_FETCH(address(at));
  }
  if (i + ahead < count) BLOCKSTEP_FETCH(address(i + ahead));
}

}  // namespace blockstep
