// verify(): whether every invariant of a state holds. Host only. Its cost is linear in the number
// of blocks, places and row entries.
#pragma once

#include <algorithm>
#include <vector>

#include "../blocks/free_queue.h"
#include "../blocks/prefix_index.h"

namespace blockstep {

/// Checks the bounds and live places of the free queue, and that it holds exactly the blocks with
/// ref == 0.
inline const char* verify_queue(const State& state) {
  if (state.head > state.tail) return "queue: the head is behind the tail";
  if (state.tail - state.head > u64{state.ring_mask} + 1) return "queue: it is longer than the ring";
  if (state.unread != kIdle) {
    if (state.packed > state.unread) return "queue: the upkeep cursors crossed";
    if (state.unread > state.tail) return "queue: upkeep read past the tail";
  }
  SoloTeam solo;
  u32 queued = 0;
  for (u64 place = state.head; place < state.tail; ++place) {
    if (!is_live(solo, state, place)) continue;
    const bool read = state.unread != kIdle && place >= state.packed && place < state.unread;
    if (read) return "queue: live between the cursors";
    const u32 at = static_cast<u32>(place) & state.ring_mask;
    const u32 id = state.ring[at];
    if (id == kNullBlock || id >= state.config.num_blocks) return "queue: no such block";
    if (state.blocks[id].ref != 0) return "queue: a block in it is held";
    if (state.blocks[id].place != at) return "queue: a block in it believes to be elsewhere";
    queued += 1;
  }
  if (queued != state.num_free) return "queue: num_free is not the number of live places";
  u32 unheld = 0;
  for (u32 id = 1; id < state.config.num_blocks; ++id) unheld += state.blocks[id].ref == 0;
  if (unheld != queued) return "queue: a block that nobody holds is missing";
  return nullptr;
}

/// Checks rows and references: every reference of a block belongs to a row or is a pin.
inline const char* verify_rows(const State& state) {
  std::vector<u32> holders(state.config.num_blocks, 0);
  std::vector<u32> last_row(state.config.num_blocks, kNone);
  u32 in_use = 0;
  for (u32 index = 0; index < state.config.num_rows; ++index) {
    const Row& row = state.rows[index];
    if (row.in_use > 1) return "rows: in_use is neither 0 nor 1";
    if (row.claimed != 0) return "rows: a claim was left behind";
    if (!row.in_use && row.num_blocks != 0) return "rows: a free row holds blocks";
    if (row.num_blocks > state.config.max_blocks_per_row) return "rows: a row is too long";
    in_use += row.in_use;
    for (u32 i = 0; i < row.num_blocks; ++i) {
      const u32 id = blocks_of(state, index)[i];
      if (id == kNullBlock) continue;
      if (id >= state.config.num_blocks) return "rows: no such block";
      if (last_row[id] == index) return "rows: a row holds a block twice";
      last_row[id] = index;
      holders[id] += 1;
    }
  }
  if (in_use != state.rows_in_use) return "rows: rows_in_use is not the number of rows in use";
  for (u32 id = 1; id < state.config.num_blocks; ++id) {
    if (state.blocks[id].ref != u64{holders[id]} + state.blocks[id].pins) return "blocks: ref is not rows plus pins";
  }
  return nullptr;
}

/// Checks the prefix index. Its chains must hold exactly the published blocks, each in the bucket
/// of its key, and all stamps must differ.
inline const char* verify_index(const State& state) {
  u32 published = 0;
  for (u32 id = 0; id < state.config.num_blocks; ++id) {
    const u32 flags = state.blocks[id].flags;
    if (flags & ((1u << kGroupShift) - 1) & ~u32{kPublished}) return "index: a transient flag was left behind";
    published += flags & kPublished;
  }
  if (published != state.num_published) return "index: num_published is not the number of published blocks";
  std::vector<u64> stamps;
  stamps.reserve(published);
  for (u32 bucket = 0; bucket <= state.bucket_mask; ++bucket) {
    u32 id = state.buckets[bucket];
    if (id & kLock) return "index: a bucket is locked";
    for (; id != kNullBlock; id = state.blocks[id].next) {
      if (id >= state.config.num_blocks) return "index: no such block";
      const Block& block = state.blocks[id];
      if (!(block.flags & kPublished)) return "index: a chain holds an unpublished block";
      if (group_of(block) >= state.config.num_groups) return "index: a block has a key of no group";
      if (bucket_of(state, block.key, group_of(block)) != &state.buckets[bucket]) return "index: a block is in the wrong bucket";
      if (block.stamp == 0 || block.stamp >= state.next_stamp) return "index: a stamp is out of range";
      if (stamps.size() == published) return "index: a block is in a chain twice";
      stamps.push_back(block.stamp);
    }
  }
  if (stamps.size() != published) return "index: a published block is in no chain";
  std::sort(stamps.begin(), stamps.end());
  if (std::adjacent_find(stamps.begin(), stamps.end()) != stamps.end()) return "index: two blocks have one stamp";
  return nullptr;
}

/// Returns nullptr, or the name of a broken invariant.
inline const char* verify(const State& state) {
  if (!valid(state.config)) return "config: out of range";
  if (state.fault != kNoFault) return describe(state.fault);
  if (state.ring_mask != ring_places(state.config) - 1) return "config: ring_mask does not fit";
  if (state.bucket_mask != num_buckets(state.config) - 1) return "config: bucket_mask does not fit";
  const Block& null_block = state.blocks[kNullBlock];
  if (null_block.ref || null_block.pins || null_block.flags) return "blocks: the null block is in use";
  if (const char* broken = verify_queue(state)) return broken;
  if (const char* broken = verify_rows(state)) return broken;
  return verify_index(state);
}

}  // namespace blockstep
