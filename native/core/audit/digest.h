// digest(): 64 bits that are equal, up to collisions, exactly if two states have the same future.
//
// It covers the order of the queue, references, pins, generations, keys, the order of age among
// blocks with one key, and the rows. It omits the position of the queue in its ring, the absolute
// stamps and the order inside chains. The digest is a sum of independent terms, so any team, or a
// grid of teams, can share the work.
#pragma once

#include "../blocks/free_queue.h"
#include "../blocks/prefix_index.h"

namespace blockstep {

/// The kind of a term of the digest; the high bits of the first argument of mix().
enum class DigestTerm : u64 { kQueue = 1, kBlock, kRow, kRowBlock };

BLOCKSTEP_HD inline u64 term(DigestTerm kind, u64 index) { return static_cast<u64>(kind) << 56 | index; }

/// Number of older blocks that are published under the same key.
BLOCKSTEP_HD inline u32 older_twins(const State& state, const Block& block) {
  u32 older = 0;
  for (u32 id = *bucket_of(state, block.key, group_of(block)); id != kNullBlock; id = state.blocks[id].next) {
    const Block& other = state.blocks[id];
    if (other.key == block.key && other.stamp < block.stamp && group_of(other) == group_of(block)) older += 1;
  }
  return older;
}

BLOCKSTEP_HD inline u64 digest_block(const State& state, u32 id) {
  const Block& block = state.blocks[id];
  u64 hash = mix(term(DigestTerm::kBlock, id), block.ref | u64{block.generation} << 32);
  hash = mix(hash, block.pins);
  if (!(block.flags & kPublished)) return hash;
  hash = mix(hash, block.key.lo);
  hash = mix(hash, block.key.hi ^ group_of(block));
  return mix(hash, older_twins(state, block));
}

/// The number of live places in [from, to).
template <Team T>
BLOCKSTEP_HD inline u32 count_live(T& team, const State& state, u64 from, u64 to) {
  u64 live = 0;
  for (u64 place = from + team.rank(); place < to; place += team.size()) live += is_live(team, state, place);
  return static_cast<u32>(team.sum(live));
}

/// This member's share of the digest of the places [from, to) of the queue. `index` is the number
/// of live places before them.
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

/// This member's share of the digest of a row. The whole team reads a row together, because rows
/// differ in length.
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

/// The place where part `part` of the queue begins, if `parts` teams digest a state together. The
/// part ends where part + 1 begins.
BLOCKSTEP_HD inline u64 queue_part(const State& state, u32 part, u32 parts) {
  return state.head + (state.tail - state.head) * part / parts;
}

/// The share of a whole team, part `part` of `parts`, in the digest. The digest is the sum of all
/// shares. `live_before` is the count_live() of the earlier parts of the queue. Must not run
/// concurrently with apply().
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

/// The digest of the whole state, equal for every team. Must not run concurrently with apply().
template <Team T>
BLOCKSTEP_HD inline u64 digest(T& team, const State& state) {
  return digest_part(team, state, 0, 1, 0);
}

inline u64 digest(const State& state) {
  SoloTeam solo;
  return digest(solo, state);
}

}  // namespace blockstep
