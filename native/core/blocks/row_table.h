// The KV slot table: the blocks of each row, in order. Team code, see team.h.
#pragma once

#include "block_pool.h"
#include "../base/command.h"
#include "prefix_index.h"

namespace blockstep {

/// Brings a free row into use, with `hits` as its first blocks. The hits differ, except for the
/// null block.
template <Team T>
BLOCKSTEP_HD inline u32 open(T& team, State& state, u32 row_index, const u32* hits, u32 count) {
  if (count > state.config.max_blocks_per_row) return kRowTooLong;
  u32 fault = kNoFault;
  if (team.rank() == 0) {  // one member reads and writes in_use, so no barrier is needed in between
    Row& row = state.rows[row_index];
    if (row.in_use) fault = kRowInUse;
    row.in_use = 1;
    row.num_blocks = count;
    row.generation += 1;
  }
  u32 left = 0;
  u32* list = blocks_of(state, row_index);
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    list[i] = hits[i];
    if (hits[i] != kNullBlock) left += hold(team, state, state.blocks[hits[i]]);
  }
  u32 total;
  team.scan(left, total);
  state.num_free -= total;
  state.rows_in_use += 1;
  return agree(team, fault);
}

/// The grant of the `index`-th taken block. `from` is a lower bound: the answer for a smaller
/// index.
BLOCKSTEP_HD inline u32 grant_of(const State& state, u32 index, u32 count, u32 from) {
  if (from + 1 == count || state.grants[from + 1].first > index) return from;
  u32 low = from + 1;  // the last grant that begins at or before index is in [low, high)
  u32 high = count;
  BLOCKSTEP_ROLLED
  while (high - low > 1) {
    const u32 middle = low + (high - low) / 2;
    (state.grants[middle].first <= index ? low : high) = middle;
  }
  return low;
}

/// Reads the (row, n) pairs into State::grants and claims the rows, and changes nothing else.
/// Returns the number of blocks that all pairs need. `fault` is the team's fault.
template <Team T>
BLOCKSTEP_HD inline u64 plan_grants(T& team, State& state, const u32* pairs, u32 count, u32& fault) {
  u64 wanted = 0;
  u32 found = kNoFault;
  BLOCKSTEP_ROLLED
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    u32 n = 0;
    if (i < count) {
      Row& row = state.rows[pairs[2 * i]];
      n = pairs[2 * i + 1];
      if (n == 0) found = lower(found, kBadCommand);
      if (team.exchange(&row.claimed, 1) != 0) found = lower(found, kRowRepeated);
      if (!row.in_use) found = lower(found, kRowNotInUse);
      if (n > state.config.max_blocks_per_row - row.num_blocks) found = lower(found, kRowTooLong);
      if (found != kNoFault) n = 0;  // other n are small: no overflow in a window
      state.grants[i].row = pairs[2 * i];
      state.grants[i].at = row.num_blocks;
    }
    u32 total;
    const u32 before = team.scan(n, total);
    if (i < count) state.grants[i].first = static_cast<u32>(wanted) + before;
    wanted += total;
  }
  if (wanted > state.num_free) found = lower(found, kNoFreeBlocks);
  fault = agree(team, found);
  return wanted;
}

/// Takes n >= 1 blocks for each (row, n), in list order, and appends them to the rows. The ids are
/// written to results.ids, from num_ids on. The rows differ.
template <Team T>
BLOCKSTEP_HD inline u32 extend(T& team, State& state, const u32* pairs, u32 count, const Results& results,
                               u32& num_ids) {
  if (count > state.config.num_rows) return kBadCommand;
  u32 fault;
  const u64 wanted = plan_grants(team, state, pairs, count, fault);
  if (fault != kNoFault) return fault;
  if (wanted > results.capacity - num_ids) return kResultsFull;
  const u32 n = static_cast<u32>(wanted);
  u32* ids = results.ids + num_ids;
  const u32 dropped = take(team, state, ids, n);
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Row& row = state.rows[pairs[2 * i]];
    row.num_blocks += pairs[2 * i + 1];
    row.claimed = 0;
  }
  const bool one_each = n == count;
  u32 entry = 0;
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < n; i += team.size()) {
    entry = one_each ? i : grant_of(state, i, count, entry);
    const Grant& grant = state.grants[entry];
    blocks_of(state, grant.row)[grant.at + (i - grant.first)] = ids[i];
    state.rolling_digest += mix(state.num_taken + i, ids[i]);
  }
  state.num_taken += n;
  num_ids += n;
  drop_marked(team, state, ids, n, dropped);
  return kNoFault;
}

/// Drops the blocks of places of rows, entry after entry, the last place of each entry first.
/// `entries` is the payload of kDrop.
template <Team T>
BLOCKSTEP_HD inline u32 drop(T& team, State& state, const u32* entries, u32 count) {
  BLOCKSTEP_ROLLED
  for (u32 i = 0; i < count; ++i) {
    const u32* entry = entries + 3 * i;
    const Row& row = state.rows[entry[0]];
    if (!row.in_use) return kRowNotInUse;
    if (entry[1] > row.num_blocks || entry[2] > row.num_blocks - entry[1]) return kNoSuchBlock;
    u32* list = blocks_of(state, entry[0]) + entry[1];
    const u32 fault = agree(team, let_go(team, state, list, entry[2]));
    if (fault != kNoFault) return fault;
    BLOCKSTEP_ROLLED
    for (u32 at = team.rank(); at < entry[2]; at += team.size()) list[at] = kNullBlock;
    team.sync();
  }
  return kNoFault;
}

/// Appends empty places to rows. `pairs` is the payload of kPad.
template <Team T>
BLOCKSTEP_HD inline u32 pad(T& team, State& state, const u32* pairs, u32 count) {
  BLOCKSTEP_ROLLED
  for (u32 i = 0; i < count; ++i) {
    Row& row = state.rows[pairs[2 * i]];
    const u32 at = row.num_blocks;
    const u32 n = pairs[2 * i + 1];
    if (!row.in_use) return kRowNotInUse;
    if (n > state.config.max_blocks_per_row - at) return kRowTooLong;
    team.sync();
    u32* list = blocks_of(state, pairs[2 * i]) + at;
    BLOCKSTEP_ROLLED
    for (u32 place = team.rank(); place < n; place += team.size()) list[place] = kNullBlock;
    if (team.rank() == 0) row.num_blocks = at + n;
    team.sync();
  }
  return kNoFault;
}

/// Moves blocks within their rows. `entries` is the payload of kMove.
template <Team T>
BLOCKSTEP_HD inline u32 move(T& team, State& state, const u32* entries, u32 count) {
  u32 fault = kNoFault;
  // Few entries, and an entry may use the place that an earlier entry vacated.
  if (team.rank() == 0) {
    BLOCKSTEP_ROLLED
    for (u32 i = 0; i < count && fault == kNoFault; ++i) {
      const u32* entry = entries + 3 * i;
      const Row& row = state.rows[entry[0]];
      u32* list = blocks_of(state, entry[0]);
      if (!row.in_use) fault = kRowNotInUse;
      else if (entry[1] >= row.num_blocks || entry[2] >= row.num_blocks || list[entry[2]] != kNullBlock) fault = kNoSuchBlock;
      else {
        list[entry[2]] = list[entry[1]];
        list[entry[1]] = kNullBlock;
      }
    }
  }
  return agree(team, fault);
}

/// Frees the rows and drops the references to their blocks, row after row, the last block of each
/// row first.
template <Team T>
BLOCKSTEP_HD inline u32 release(T& team, State& state, const u32* rows, u32 count) {
  BLOCKSTEP_ROLLED
  for (u32 i = 0; i < count; ++i) {
    Row& row = state.rows[rows[i]];
    if (!row.in_use) return kRowNotInUse;
    u32 fault = let_go(team, state, blocks_of(state, rows[i]), row.num_blocks);
    fault = agree(team, fault);
    if (fault != kNoFault) return fault;
    if (team.rank() == 0) {
      row.in_use = 0;
      row.num_blocks = 0;
    }
    state.rows_in_use -= 1;
    team.sync();
  }
  return kNoFault;
}

}  // namespace blockstep
