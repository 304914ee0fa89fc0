// References and pins of blocks. A block is in the free queue exactly while it has no references, so these functions
// also move blocks out of the queue and back to its tail. Team code, see team.h.
#pragma once

#include "../base/fault.h"
#include "free_queue.h"

namespace blockstep {

/// Adds a reference to a block. A block without references leaves the queue, and the answer is 1; otherwise it is 0.
/// The caller lowers num_free by the sum of the answers over the team.
template <Team T>
BLOCKSTEP_HD inline u32 hold(T& team, State& state, Block& block) {
  if (team.fetch_add(&block.ref, 1) != 0) return 0;
  leave_queue(team, state, block);
  return 1;
}

/// Ends an append: the places from the old tail up to `tail` become live and count as free.
template <Team T>
BLOCKSTEP_HD inline void extend_queue(T& team, State& state, u64 tail) {
  mark_live(team, state, state.tail, tail);
  state.num_free += static_cast<u32>(tail - state.tail);
  state.tail = tail;
}

/// Drops one reference of each block in a row's list, last block first. Blocks without references are queued in that
/// order, as in vLLM, so that the end of a prefix is evicted before its start. The blocks of the list differ; the null
/// block, which may repeat, is passed over. Returns the fault that this member found.
template <Team T>
BLOCKSTEP_HD inline u32 let_go(T& team, State& state, const u32* list, u32 count) {
  upkeep(team, state, count);
  u32 fault = kNoFault;
  u64 tail = state.tail;
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    const u32 id = i < count ? list[count - 1 - i] : kNullBlock;
    u32 held = 0;
    if (id != kNullBlock) {
      held = state.blocks[id].ref--;
      if (held == 0) fault = kRefUnderflow;
    }
    u32 total;
    const u64 place = tail + team.count(held == 1, total);
    if (held == 1) enqueue_at(state, place, id);
    tail += total;
  }
  extend_queue(team, state, tail);
  return fault;
}

/// Adds a pin to the block of each id; a pin is a reference. Ids may repeat.
template <Team T>
BLOCKSTEP_HD inline u32 pin(T& team, State& state, const u32* ids, u32 count) {
  u32 left = 0;
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Block& block = state.blocks[ids[i]];
    team.fetch_add(&block.pins, 1);
    left += hold(team, state, block);
  }
  u32 total;
  team.scan(left, total);
  state.num_free -= total;
  return kNoFault;
}

/// Drops one pin of the block of each id. Blocks without references are queued in list order. A block whose id repeats
/// is queued at the position of its last occurrence, as it would be in a sequence of single unpins.
template <Team T>
BLOCKSTEP_HD inline u32 unpin(T& team, State& state, const u32* ids, u32 count) {
  // A pinned block is not queued, so its `place` is free to hold the position (from 1) of its last occurrence.
  for (u32 i = team.rank(); i < count; i += team.size()) team.store(&state.blocks[ids[i]].place, 0);
  upkeep(team, state, count);
  team.sync();
  u32 fault = kNoFault;
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Block& block = state.blocks[ids[i]];
    if (team.fetch_sub(&block.pins, 1) == 0) fault = kRefUnderflow;
    team.fetch_sub(&block.ref, 1);
    team.fetch_max(&block.place, i + 1);
  }
  fault = agree(team, fault);
  if (fault != kNoFault) return fault;
  u64 tail = state.tail;
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    const u32 id = i < count ? ids[i] : kNullBlock;
    // Read before count(): a block that is queued below gets a real place, and its id may repeat in the same window.
    const bool last = i < count && state.blocks[id].ref == 0 && state.blocks[id].place == i + 1;
    u32 total;
    const u64 place = tail + team.count(last, total);
    if (last) enqueue_at(state, place, id);
    tail += total;
  }
  extend_queue(team, state, tail);
  team.sync();
  return kNoFault;
}

}  // namespace blockstep
