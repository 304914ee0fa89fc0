// Prefetching: a loop over blocks prefetches the data of later items, so that its cache misses
// overlap.
#pragma once

#include "../base/state.h"
#include "../base/team.h"

#if defined(__GNUC__) && !defined(__CUDACC__)
#define BLOCKSTEP_FETCH(address) __builtin_prefetch(address)
#else
#define BLOCKSTEP_FETCH(address) static_cast<void>(address)
#endif

namespace blockstep {

/// Number of items between a prefetch and its use. Each stage reads data that the previous stage
/// has fetched: a bucket, the first block of its chain, the second block.
constexpr u32 kFar = 24;
constexpr u32 kMid = 16;
constexpr u32 kNear = 8;

/// Pools of fewer blocks lie in the caches, where prefetching only costs time. For lookups the limit
/// is higher: their loop has less to wait for.
constexpr u32 kSmallPool = 1u << 15;
constexpr u32 kSmallLookup = 1u << 16;

/// Whether loops prefetch. In teams of several members, the other members hide the latency.
/// `small`: no loop prefetches in pools of fewer blocks.
template <Team T>
BLOCKSTEP_HD constexpr bool fetches_ahead(const T&, [[maybe_unused]] const State& state,
                                          [[maybe_unused]] u32 small = kSmallPool) {
  if constexpr (std::is_same_v<T, SoloTeam>) {
    return state.config.num_blocks >= small;
  } else {
    return false;
  }
}

/// In round `i` of a loop over `count` items, prefetches the line at address(i + ahead). The first
/// round also prefetches the lines of all earlier items. GCC would drop a call that is not inlined,
/// because it does not regard a prefetch as a side effect.
template <class Address>
BLOCKSTEP_HD BLOCKSTEP_INLINED inline void fetch(u32 i, u32 count, u32 ahead, const Address& address) {
  if (i == 0) {
    for (u32 at = 0; at < ahead && at < count; ++at) BLOCKSTEP_FETCH(address(at));
  }
  if (i + ahead < count) BLOCKSTEP_FETCH(address(i + ahead));
}

}  // namespace blockstep
