// The digest of a state: 64 bits that are equal for two states exactly when (up to collisions) everything that decides
// their future is equal: the order of the queue, references, pins, generations, keys, which of the blocks with one key
// is older, and the rows. Where the queue lies in its ring, the absolute stamps and the order inside chains do not
// count. It is a sum of independent terms, so any team, or a whole grid of them, can share the work.
#pragma once

#include "../blocks/free_queue.h"
#include "../blocks/prefix_index.h"

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

/// Live places in [from, to).
template <Team T>
BLOCKSTEP_HD inline u32 count_live(T& team, const State& state, u64 from, u64 to) {
  u64 live = 0;
  for (u64 place = from + team.rank(); place < to; place += team.size()) live += is_live(team, state, place);
  return static_cast<u32>(team.sum(live));
}

/// This member's share of the places [from, to) of the queue, `index` of which are live before them.
template <Team T>
BLOCKSTEP_HD inline u64 digest_queue(T& team, const State& state, u64 from, u64 to, u64 index) {
  u64 share = 0;
  for (u64 base = from; base < to; base += team.size()) {
    const u64 place = base + team.rank();
    const bool live = place < to && is_live(team, state, place);
    u32 total;
    const u64 mine = index + team.count(live, total);
    if (live) share += mix(term(DigestTerm::kQueue, mine), state.ring[static_cast<u32>(place) & state.ring_mask]);
    index += total;
  }
  return share;
}

/// This member's share of a row: the team reads one row together, because rows differ in length.
template <Team T>
BLOCKSTEP_HD inline u64 digest_row(T& team, const State& state, u32 index) {
  const Row& row = state.rows[index];
  const u32* ids = blocks_of(state, index);
  u64 sum = 0;
  for (u32 i = team.rank(); i < row.num_blocks; i += team.size()) {
    sum += mix(mix(term(DigestTerm::kRowBlock, index), i), ids[i]);
  }
  if (team.rank() != 0) return sum;
  return sum + mix(mix(term(DigestTerm::kRow, index), row.generation), row.num_blocks | u64{row.in_use} << 32);
}

/// Of a state that `parts` teams digest together: where part `part` of the queue begins, and where part + 1 does.
BLOCKSTEP_HD inline u64 queue_part(const State& state, u32 part, u32 parts) {
  return state.head + (state.tail - state.head) * part / parts;
}

/// The share of the whole team in the digest, as part `part` of `parts`; the digest is the sum of all. `live_before` is
/// what count_live() says of the parts of the queue before this one. Not to run beside apply().
template <Team T>
BLOCKSTEP_HD inline u64 digest_part(T& team, const State& state, u32 part, u32 parts, u64 live_before) {
  u64 share = digest_queue(team, state, queue_part(state, part, parts), queue_part(state, part + 1, parts), live_before);
  const u64 stride = u64{parts} * team.size();
  for (u64 id = 1 + u64{part} * team.size() + team.rank(); id < state.config.num_blocks; id += stride) {
    share += digest_block(state, static_cast<u32>(id));
  }
  for (u32 row = part; row < state.config.num_rows; row += parts) share += digest_row(team, state, row);
  return team.sum(share);
}

/// The digest of the whole state; the same for every team. Not to run beside apply().
template <Team T>
BLOCKSTEP_HD inline u64 digest(T& team, const State& state) {
  return digest_part(team, state, 0, 1, 0);
}

inline u64 digest(const State& state) {
  SoloTeam solo;
  return digest(solo, state);
}

}  // namespace blockstep
