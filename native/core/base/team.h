// Team: the members that run one algorithm together. On the host a team is one thread, in the tests
// a few threads, on a GPU a thread block.
//
// The rules of team code make the result independent of the size and the timing of the team:
// - All members make the same synchronising calls in the same order. Every loop around such a call
//   has the same trip count for all members. Members return early only on values that are equal in
//   all of them.
// - Positions come from count() and scan() over the list index, never from the order of atomics.
// - A member reads a value that another member wrote only after a synchronising call, or with
//   load().
// - A synchronising call is exactly one barrier, and callers rely on no more than that.
#pragma once

#include <concepts>

#include "types.h"

namespace blockstep {

/// The functions of a team. rank() is in [0, size()). The atomics are relaxed and return the old
/// value. These four calls synchronise, each with exactly one barrier:
///   sync()              only the barrier
///   count(flag, total)  number of members of lower rank with a raised flag; total: of all members
///   scan(value, total)  the sum over the members of lower rank; total: the sum over all members
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

/// Whether any member raised its flag. All members get the same answer. Synchronises, so values
/// that members wrote before the call can be read after it.
template <Team T>
BLOCKSTEP_HD inline bool any(T& team, bool flag) {
  u32 total;
  team.count(flag, total);
  return total != 0;
}

/// The team of one member, which the host uses. It compiles to plain loads, stores and loops.
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
