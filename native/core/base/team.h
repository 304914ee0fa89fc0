// A team runs one algorithm together: one member on the host, a few threads in the tests, a thread block on a GPU.
//
// The rules of team code, which make the result independent of the team:
//  - All members make the same calls in the same order: every loop around a call that synchronises has the same trip
//    count for all of them, and they leave early only on values that all of them hold.
//  - Positions come from count() and scan() over the list index, never from the order of atomics.
//  - A member reads what another one wrote only after a synchronising call, or with load().
//  - No call is stronger than one barrier, and none is known to be stronger by its caller.
#pragma once

#include <concepts>

#include "types.h"

namespace blockstep {

/// rank() is in [0, size()). The atomics are relaxed and return the old value. These four synchronise, each with
/// exactly one barrier:
///   sync()              nothing else
///   count(flag, total)  how many members of lower rank raised their flag; total: how many members did
///   scan(value, total)  the sum over the members of lower rank; total: over all members
///   sum(value)          the sum over all members, modulo 2^64
template <class T>
concept Team = requires(T& team, u32* word, const u32* read_only, u32 value, u32& total, u64 wide) {
  { team.rank() } -> std::same_as<u32>;
  { team.size() } -> std::same_as<u32>;
  team.sync();
  { team.count(true, total) } -> std::same_as<u32>;
  { team.scan(value, total) } -> std::same_as<u32>;
  { team.sum(wide) } -> std::same_as<u64>;
  { team.load(read_only) } -> std::same_as<u32>;
  team.store(word, value);
  { team.fetch_add(word, value) } -> std::same_as<u32>;
  { team.fetch_sub(word, value) } -> std::same_as<u32>;
  { team.fetch_max(word, value) } -> std::same_as<u32>;
  { team.fetch_or(word, value) } -> std::same_as<u32>;
  { team.fetch_and(word, value) } -> std::same_as<u32>;
  { team.exchange(word, value) } -> std::same_as<u32>;
};

/// Did any member raise its flag? Synchronises, so it also closes a phase of writing.
template <Team T>
BLOCKSTEP_HD inline bool any(T& team, bool flag) {
  u32 total;
  team.count(flag, total);
  return total != 0;
}

/// The team of one: the host's. Everything compiles to plain loads, stores and loops.
struct SoloTeam {
  BLOCKSTEP_HD static constexpr u32 rank() { return 0; }
  BLOCKSTEP_HD static constexpr u32 size() { return 1; }
  BLOCKSTEP_HD void sync() {}
  BLOCKSTEP_HD u32 count(bool flag, u32& total) {
    total = flag ? 1 : 0;
    return 0;
  }
  BLOCKSTEP_HD u32 scan(u32 value, u32& total) {
    total = value;
    return 0;
  }
  BLOCKSTEP_HD u64 sum(u64 value) { return value; }
  BLOCKSTEP_HD u32 load(const u32* word) { return *word; }
  BLOCKSTEP_HD void store(u32* word, u32 value) { *word = value; }
  BLOCKSTEP_HD u32 exchange(u32* word, u32 value) {
    const u32 old = *word;
    *word = value;
    return old;
  }
  BLOCKSTEP_HD u32 fetch_add(u32* word, u32 value) { return exchange(word, *word + value); }
  BLOCKSTEP_HD u32 fetch_sub(u32* word, u32 value) { return exchange(word, *word - value); }
  BLOCKSTEP_HD u32 fetch_max(u32* word, u32 value) { return exchange(word, *word < value ? value : *word); }
  BLOCKSTEP_HD u32 fetch_or(u32* word, u32 value) { return exchange(word, *word | value); }
  BLOCKSTEP_HD u32 fetch_and(u32* word, u32 value) { return exchange(word, *word & value); }
};
static_assert(Team<SoloTeam>);

}  // namespace blockstep
