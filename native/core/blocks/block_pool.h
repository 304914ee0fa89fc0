// References and pins of blocks. A block is in the free queue exactly while it has no references,
// so these functions also move blocks out of the queue and back. Team code, see team.h.
#pragma once

#include "../base/fault.h"
#include "free_queue.h"

namespace blockstep {

/// Adds a reference to a block. Returns 1 if the block had no references and left the queue,
/// otherwise 0. The caller lowers num_free by the sum of the answers over the team.
template <Team T>
BLOCKSTEP_HD inline u32 hold(T& team, State& state, Block& block) {
  if (team.fetch_add(&block.ref, 1) != 0) return 0;
  leave_queue(team, state, block);
  return 1;
}

/// Whether a block that loses its last reference now is queued before the head instead of at the
/// tail.
BLOCKSTEP_HD inline bool goes_first(const State& state, const Block& block) {
  return state.config.unhashed_first != 0 && (block.flags & kPublished) == 0;
}

/// The positions where the next dropped blocks are queued. `front` moves towards the head, `tail`
/// away from the tail.
struct QueueEnds {
  u64 front;
  u64 tail;
};

/// Begins to queue blocks. `num_first` blocks over the team go before the head, in one contiguous
/// range.
template <Team T>
BLOCKSTEP_HD inline QueueEnds begin_queueing(T& team, const State& state, u32 num_first) {
  u32 total = 0;
  if (state.config.unhashed_first != 0) team.scan(num_first, total);
  return {state.head - total, state.tail};
}

/// Queues the blocks of a window, in the order of the members. The block of this member is queued
/// if `leaves`.
template <Team T>
BLOCKSTEP_HD inline void queue_window(T& team, State& state, QueueEnds& ends, u32 id, bool leaves) {
  const bool first = leaves && goes_first(state, state.blocks[id]);
  u32 total;
  u64 place = ends.tail + team.count(leaves && !first, total);
  ends.tail += total;
  if (state.config.unhashed_first != 0) {
    const u64 before = ends.front + team.count(first, total);
    ends.front += total;
    if (first) place = before;
  }
  if (!leaves) return;
  enqueue_at(state, place, id);
  if (first) enter_queue(team, state, state.blocks[id]);
}

/// Ends the queueing. The places before the head, and from the old to the new tail, become live and
/// free.
template <Team T>
BLOCKSTEP_HD inline void end_queueing(T& team, State& state, u32 num_before, const QueueEnds& ends) {
  if (num_before != 0) team.sync();  // a word of live bits may have places at both ends
  mark_live(team, state, state.tail, ends.tail);
  state.head -= num_before;
  state.num_free += num_before + static_cast<u32>(ends.tail - state.tail);
  state.tail = ends.tail;
}

/// Drops one reference of each block in a row's list, last block first. Blocks without references
/// are queued in this order, as in vLLM, so that the end of a prefix is evicted before its start.
/// With Config::unhashed_first, blocks without a key are queued before the head, in the same order,
/// as in vLLM since #42656. Lookups cannot find them, so they are taken first. The blocks of the
/// list differ, except the null block, which is skipped. Returns the fault that this member found.
template <Team T>
BLOCKSTEP_HD inline u32 let_go(T& team, State& state, const u32* list, u32 count) {
  upkeep(team, state, count);
  u32 num_first = 0;
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); state.config.unhashed_first != 0 && i < count; i += team.size()) {
    if (list[i] == kNullBlock) continue;
    const Block& block = state.blocks[list[i]];
    num_first += block.ref == 1 && goes_first(state, block);
  }
  QueueEnds ends = begin_queueing(team, state, num_first);
  const u32 num_before = static_cast<u32>(state.head - ends.front);
  u32 fault = kNoFault;
  BLOCKSTEP_ROLLED
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    const u32 id = i < count ? list[count - 1 - i] : kNullBlock;
    u32 held = 0;
    if (id != kNullBlock) {
      held = state.blocks[id].ref--;
      if (held == 0) fault = kRefUnderflow;
    }
    queue_window(team, state, ends, id, held == 1);
  }
  end_queueing(team, state, num_before, ends);
  return fault;
}

/// Adds a pin to the block of each id; a pin is a reference. Ids may repeat.
template <Team T>
BLOCKSTEP_HD inline u32 pin(T& team, State& state, const u32* ids, u32 count) {
  u32 left = 0;
  BLOCKSTEP_ROLLED
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

/// Drops one pin of the block of each id. Blocks without references are queued in list order, like
/// let_go() queues them. A block whose id repeats is queued at the position of its last occurrence,
/// like in a sequence of single unpins.
template <Team T>
BLOCKSTEP_HD inline u32 unpin(T& team, State& state, const u32* ids, u32 count) {
  // A pinned block is not queued, so its `place` can hold the position (from 1) of its last
  // occurrence.
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) team.store(&state.blocks[ids[i]].place, 0);
  upkeep(team, state, count);
  team.sync();
  u32 fault = kNoFault;
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Block& block = state.blocks[ids[i]];
    if (team.fetch_sub(&block.pins, 1) == 0) fault = kRefUnderflow;
    team.fetch_sub(&block.ref, 1);
    team.fetch_max(&block.place, i + 1);
  }
  fault = agree(team, fault);
  if (fault != kNoFault) return fault;
  u32 num_first = 0;
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); state.config.unhashed_first != 0 && i < count; i += team.size()) {
    const Block& block = state.blocks[ids[i]];
    num_first += block.ref == 0 && block.place == i + 1 && goes_first(state, block);
  }
  QueueEnds ends = begin_queueing(team, state, num_first);
  const u32 num_before = static_cast<u32>(state.head - ends.front);
  BLOCKSTEP_ROLLED
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    const u32 id = i < count ? ids[i] : kNullBlock;
    // Read before any block is queued: queueing overwrites `place`, and the id may repeat in the
    // window.
    const bool last = i < count && state.blocks[id].ref == 0 && state.blocks[id].place == i + 1;
    queue_window(team, state, ends, id, last);
  }
  end_queueing(team, state, num_before, ends);
  team.sync();
  return kNoFault;
}

}  // namespace blockstep
