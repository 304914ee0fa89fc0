// The digest of a state: 64 bits that are equal for two states exactly when (up to collisions) everything that decides
// their future is equal: the order of the queue, references, pins, generations, keys, which of the blocks with one key
// is older, and the rows. Where the queue lies in its ring, the absolute stamps and the order inside chains do not
// count. It is a sum of independent terms, so any team, or a whole grid of them, can share the work.
#pragma once

#include "free_queue.h"
#include "prefix_index.h"

namespace blockstep {

/// What a term of the digest is about; the high bits of mix()'s first argument.
enum class DigestTerm : u64 { kQueue = 1, kBlock, kRow, kRowBlock };

BLOCKSTEP_HD inline u64 term(DigestTerm kind, u64 index) { return static_cast<u64>(kind) << 56 | index; }

/// How many blocks published under the same key are older.
BLOCKSTEP_HD inline u32 older_twins(const State& state, const Block& block) {
  u32 older = 0;
  for (u32 id = *bucket_of(state, block.key); id != kNullBlock; id = state.blocks[id].next) {
    const Block& other = state.blocks[id];
    if (other.key == block.key && other.stamp < block.stamp) older += 1;
  }
  return older;
}

BLOCKSTEP_HD inline u64 digest_block(const State& state, u32 id) {
  const Block& block = state.blocks[id];
  u64 hash = mix(term(DigestTerm::kBlock, id), block.ref | u64{block.generation} << 32);
  hash = mix(hash, block.pins);
  if (!(block.flags & kPublished)) return hash;
  hash = mix(hash, block.key.lo);
  hash = mix(hash, block.key.hi);
  return mix(hash, older_twins(state, block));
}

BLOCKSTEP_HD inline u64 digest_row(const State& state, u32 index) {
  const Row& row = state.rows[index];
  u64 sum = mix(mix(term(DigestTerm::kRow, index), row.generation), row.num_blocks | u64{row.in_use} << 32);
  for (u32 i = 0; i < row.num_blocks; ++i) {
    sum += mix(mix(term(DigestTerm::kRowBlock, index), i), blocks_of(state, index)[i]);
  }
  return sum;
}

/// The digest of the whole state; the same for every team. Not to run beside apply().
template <Team T>
BLOCKSTEP_HD inline u64 digest(T& team, const State& state) {
  u64 share = 0;
  u64 index = 0;
  for (u64 base = state.head; base < state.tail; base += team.size()) {
    const u64 place = base + team.rank();
    const bool live = place < state.tail && is_live(team, state, place);
    u32 total;
    const u64 mine = index + team.count(live, total);
    if (live) share += mix(term(DigestTerm::kQueue, mine), state.ring[static_cast<u32>(place) & state.ring_mask]);
    index += total;
  }
  for (u32 id = 1 + team.rank(); id < state.config.num_blocks; id += team.size()) share += digest_block(state, id);
  for (u32 row = team.rank(); row < state.config.num_rows; row += team.size()) share += digest_row(state, row);
  return team.sum(share);
}

inline u64 digest(const State& state) {
  SoloTeam solo;
  return digest(solo, state);
}

}  // namespace blockstep
