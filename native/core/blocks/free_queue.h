// The free queue: vLLM's ordered list of unreferenced blocks (FreeKVCacheBlockQueue), as a ring
// with one live bit per place.
//
// Blocks are appended at the tail, or put before the head, and taken from the head. A free block
// that a request hits leaves the middle of the queue at a constant cost: only its live bit is
// cleared. Its place remains as a dead place. upkeep() removes dead places before they can fill the
// ring. No result depends on the position of the queue in the ring.
//
// All functions are team code (see team.h). `state` is the member's own copy. Every member changes
// its scalars in the same way, and all members share the arrays.
#pragma once

#include "../base/state.h"
#include "../base/team.h"
#include "fetch_ahead.h"

namespace blockstep {

template <Team T>
BLOCKSTEP_HD inline bool is_live(T& team, const State& state, u64 place) {
  const u32 at = static_cast<u32>(place) & state.ring_mask;
  return (team.load(&state.live[at >> 5]) >> (at & 31) & 1u) != 0;
}

/// Removes a block from any position of the queue. The caller lowers num_free.
template <Team T>
BLOCKSTEP_HD inline void leave_queue(T& team, State& state, const Block& block) {
  team.fetch_and(&state.live[block.place >> 5], ~(1u << (block.place & 31)));
}

/// Marks the place of one block live. Other members may mark theirs concurrently.
template <Team T>
BLOCKSTEP_HD inline void enter_queue(T& team, State& state, const Block& block) {
  team.fetch_or(&state.live[block.place >> 5], 1u << (block.place & 31));
}

/// Marks the places [from, to) live. Each word of live bits has one writer, and its other bits keep
/// their values.
template <Team T>
BLOCKSTEP_HD inline void mark_live(T& team, State& state, u64 from, u64 to) {
  const u32 word_mask = state.ring_mask >> 5;
  if (from == to) return;
  const u64 last = (to - 1) >> 5;
  BLOCKSTEP_ROLLED
  for (u64 word = (from >> 5) + team.rank(); word <= last; word += team.size()) {
    u32 bits = ~0u;
    if (word == from >> 5) bits &= ~0u << (from & 31);
    if (word == last) bits &= ~0u >> (31 - ((to - 1) & 31));
    state.live[static_cast<u32>(word) & word_mask] |= bits;
  }
}

/// Writes a block to a place of the ring. The caller sets the live bit of the place.
BLOCKSTEP_HD inline void enqueue_at(State& state, u64 place, u32 id) {
  const u32 at = static_cast<u32>(place) & state.ring_mask;
  state.ring[at] = id;
  state.blocks[id].place = at;
}

/// Makes room before up to `count` blocks are queued, at either end. It compacts the queue towards
/// the head, a bounded stretch per call, and keeps its order. A round of compaction starts when
/// more than N = num_blocks places are dead. Each call reads four places for every block that is
/// about to be queued.
///
/// Why a ring of 4N places cannot overflow: let a round start at length L (= tail - head). Only
/// queued blocks lengthen the queue. When A blocks have been queued during the round, 4A of at most
/// L + A places have been read. So the round ends with A < L/3, and the length stays below 4L/3.
/// (Blocks queued before the head are live and need not be read. They extend the packed places at
/// the front.) The number of packed places is at most N + A. So the length after the round is below
/// N + L/3. The ending call then queues at most N blocks, since none of them was queued before. If
/// the next round starts at once, its length is at most N + L/3 + N. If it starts later, its length
/// is at most N dead + N queued. So L <= 3N implies L <= 3N for the next round. It holds for the
/// first round (N + N), and 4L/3 <= 4N.
///
/// Does not end synchronised: the caller must synchronise, for example by count(), before a member
/// queues a block.
template <Team T>
BLOCKSTEP_HD inline void upkeep(T& team, State& state, u64 count) {
  if (state.unread == kIdle) {
    const u64 dead = state.tail - state.head - state.num_free;
    if (dead <= state.config.num_blocks) return;
    state.packed = state.unread = state.head;
  }
  // Blocks taken since the last call may have moved the head past the cursors.
  u64 packed = state.packed > state.head ? state.packed : state.head;
  u64 unread = state.unread > packed ? state.unread : packed;
  const u64 wanted = unread + 4 * count;
  const u64 end = wanted < state.tail ? wanted : state.tail;
  BLOCKSTEP_ROLLED
  for (; unread < end; unread = unread + team.size() < end ? unread + team.size() : end) {
    const u64 place = unread + team.rank();
    const bool live = place < end && is_live(team, state, place);
    const u32 at = static_cast<u32>(place) & state.ring_mask;
    const u32 id = live ? state.ring[at] : kNullBlock;
    u32 total;
    const u64 target = packed + team.count(live, total);
    packed += total;
    if (!live) continue;  // no synchronising call follows in this round of the loop
    // Targets lie in [packed - total, packed). All of these places become live, and only the
    // members that move blocks into them write their bits.
    enqueue_at(state, target, id);
    enter_queue(team, state, state.blocks[id]);
    if (place >= packed) team.fetch_and(&state.live[at >> 5], ~(1u << (at & 31)));
  }
  state.packed = packed;
  state.unread = unread;
  if (unread == state.tail) {
    state.tail = packed;
    state.unread = kIdle;
  }
}

/// Skips words of the live bitmap, from place `from` on, that hold no live place. The team reads
/// size() words per round. Returns the first place that may be live, or a place at or after the
/// tail.
template <Team T>
BLOCKSTEP_HD inline u64 skip_dead(T& team, const State& state, u64 from) {
  const u32 word_mask = state.ring_mask >> 5;
  const u64 end = (state.tail + 31) >> 5;
  u64 word = from >> 5;
  BLOCKSTEP_ROLLED
  for (;;) {
    const u64 mine = word + team.rank();
    u32 bits = 0;
    if (mine < end) bits = team.load(&state.live[static_cast<u32>(mine) & word_mask]);
    if (mine == from >> 5) bits &= ~0u << (from & 31);
    const bool empty = bits == 0;
    u32 filled, leading;
    const u32 before = team.count(!empty, filled);
    team.count(empty && before == 0, leading);
    word += leading;
    if (filled != 0 || word >= end) break;
  }
  return word << 5 > from ? word << 5 : from;
}

/// Takes the first `count` <= num_free blocks of the queue, in order, into `out`. Each block gets
/// one reference and a new generation. A block with a key is marked kDropped. Returns the number of
/// blocks that this member marked. The caller must call drop_marked() next. Ends synchronised.
template <Team T>
BLOCKSTEP_HD inline u32 take(T& team, State& state, u32* out, u32 count) {
  u32 dropped = 0;
  u32 taken = 0;
  u64 head = state.head;
  const bool ahead = fetches_ahead(team, state);
  const auto block_at = [&](u32 at) {
    return &state.blocks[state.ring[static_cast<u32>(state.head + at) & state.ring_mask]];
  };
  BLOCKSTEP_ROLLED
  while (taken < count) {
    const u64 place = head + team.rank();
    const bool live = place < state.tail && is_live(team, state, place);
    if (ahead) fetch(static_cast<u32>(place - state.head), kNone, kFar, block_at);
    u32 total;
    const u32 index = taken + team.count(live, total);
    if (live && index < count) {
      const u32 id = state.ring[static_cast<u32>(place) & state.ring_mask];
      Block& block = state.blocks[id];
      block.ref = 1;
      block.generation += 1;
      if (block.flags & kPublished) {
        block.flags ^= kPublished | kDropped;
        dropped += 1;
      }
      out[index] = id;
    }
    taken += total;
    if (total == 0) {
      head = skip_dead(team, state, head + team.size());
    } else if (taken < count) {
      head += team.size();
    } else {  // the head is right behind the last block taken
      u32 passed;
      team.count(index < count, passed);
      head += passed;
    }
  }
  state.head = head;
  state.num_free -= count;
  return dropped;
}

}  // namespace blockstep
