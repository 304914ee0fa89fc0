// The index of the prefix cache. It maps a block hash to the oldest block that was published under
// it.
//
// It is a hash table whose chains run through the blocks themselves. Every published block is in a
// chain, even if another block has the same key. As in vLLM, duplicates stay separate, and the
// oldest block is the hit. The order inside a chain depends on the timing of the members. The
// stamps do not, so lookups compare stamps. Team code, see team.h.
#pragma once

#include "../base/command.h"
#include "../base/state.h"
#include "../base/team.h"
#include "fetch_ahead.h"

namespace blockstep {

/// The bit that is set in a bucket while a member rebuilds its chain. Block ids are smaller.
constexpr u32 kLock = 1u << 31;

/// The index of the bucket of a key of a group. Keys are outputs of SipHash, so some of their bits
/// serve as the hash. Groups publish blocks under the same keys, so each group has other buckets.
BLOCKSTEP_HD inline u32 bucket_index(const Key& key, u32 group, u32 bucket_mask) {
  return (static_cast<u32>(key.lo) + group * 0x9e3779b9u) & bucket_mask;
}
BLOCKSTEP_HD inline u32* bucket_of(const State& state, const Key& key, u32 group) {
  return &state.buckets[bucket_index(key, group, state.bucket_mask)];
}

/// The bucket of the current or former key of a block.
BLOCKSTEP_HD inline u32* bucket_of(const State& state, const Block& block) {
  return bucket_of(state, block.key, group_of(block));
}

/// The oldest block that the group published under `key`, or kNone.
BLOCKSTEP_HD inline u32 find(const State& state, const Key& key, u32 group = 0) {
  u32 best = kNone;
  u64 oldest = ~u64{0};
  BLOCKSTEP_ROLLED
  for (u32 id = *bucket_of(state, key, group); id != kNullBlock; id = state.blocks[id].next) {
    const Block& block = state.blocks[id];
    if (block.key == key && block.stamp < oldest && group_of(block) == group) {
      oldest = block.stamp;
      best = id;
    }
  }
  return best;
}

/// Prefetches for a loop that reads the chain of a bucket in each round.
class ChainFetcher {
 public:
  /// Call in round `i` of `count`. bucket_at(i) is the bucket of item i, and is called once per
  /// item.
  template <class Bucket>
  BLOCKSTEP_HD BLOCKSTEP_INLINED void fetch_ahead(const State& state, u32 i, u32 count, const Bucket& bucket_at) {
    const auto first = [&](u32 at) { return &state.blocks[*buckets_[at % kKept] & ~kLock]; };
    fetch(i, count, kFar, [&](u32 at) { return buckets_[at % kKept] = bucket_at(at); });
    fetch(i, count, kMid, first);
    fetch(i, count, kNear, [&](u32 at) { return &state.blocks[first(at)->next]; });
  }

 private:
  static constexpr u32 kKept = 32;
  static_assert(kFar < kKept);
  u32* buckets_[kKept];  // buckets of the items up to kFar ahead
};

/// The loop of lookup(). The variant without prefetching is separate code, because prefetching uses
/// registers.
template <bool kAhead, Team T, class Keys>
BLOCKSTEP_HD inline u32 count_hits(T& team, const State& state, const Keys& keys, u32 n, u32* out_ids) {
  u32 run = 0;
  [[maybe_unused]] ChainFetcher fetcher;
  BLOCKSTEP_ROLLED
  for (u32 base = 0; base < n; base += team.size()) {
    const u32 i = base + team.rank();
    if constexpr (kAhead) fetcher.fetch_ahead(state, i, n, [&](u32 at) { return bucket_of(state, keys[at], 0); });
    const u32 id = i < n ? find(state, keys[i]) : kNone;
    const bool hit = id != kNone;
    if (hit) out_ids[i] = id;
    u32 misses, leading;
    const u32 before = team.count(!hit, misses);
    team.count(hit && before == 0, leading);
    run += leading;
    if (misses != 0) break;
  }
  return run;
}

/// Looks up `n` keys and returns the number of leading keys that hit. The ids of their blocks go to
/// out_ids[0 .. number of hits). out_ids needs room for `n` ids, and the other elements are
/// undefined. `keys[i]` is the i-th key. Changes nothing. Must not run concurrently with apply().
/// Ends synchronised.
template <Team T, class Keys>
BLOCKSTEP_HD inline u32 lookup(T& team, const State& state, const Keys& keys, u32 n, u32* out_ids) {
  if (fetches_ahead(team, state, kSmallLookup)) return count_hits<true>(team, state, keys, n, out_ids);
  return count_hits<false>(team, state, keys, n, out_ids);
}

/// Publishes blocks of rows, each for the group of its row. `entries` is the payload of kPublish.
/// Stamps follow the order of the list.
template <Team T>
BLOCKSTEP_HD inline u32 publish(T& team, State& state, const u32* entries, u32 count) {
  u32 fault = kNoFault;
  const auto bucket_at = [&](u32 at) {
    const u32* entry = entries + at * kPublishWords;
    return bucket_of(state, key_at(entry + 2), group_of_row(state, entry[0]));
  };
  const bool ahead = fetches_ahead(team, state);
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    if (ahead) fetch(i, count, kFar, bucket_at);
    const u32* entry = entries + i * kPublishWords;
    const Row& row = state.rows[entry[0]];
    if (!row.in_use || entry[1] >= row.num_blocks) {
      fault = lower(fault, row.in_use ? kNoSuchBlock : kRowNotInUse);
      continue;
    }
    const u32 id = blocks_of(state, entry[0])[entry[1]];
    if (id == kNullBlock) {
      fault = lower(fault, kNoSuchBlock);
      continue;
    }
    Block& block = state.blocks[id];
    if (team.fetch_or(&block.flags, kPublished) & kPublished) {
      fault = lower(fault, kAlreadyPublished);
      continue;
    }
    const u32 group = group_of_row(state, entry[0]);
    team.store(&block.flags, kPublished | group << kGroupShift);
    block.key = key_at(entry + 2);
    block.stamp = state.next_stamp + i;
    block.next = team.exchange(bucket_of(state, block.key, group), id);
  }
  fault = agree(team, fault);
  if (fault != kNoFault) return fault;
  state.next_stamp += count;
  state.num_published += count;
  return kNoFault;
}

/// drop_marked() in a team of one member, which needs no locks. Most chains have one block.
BLOCKSTEP_HD inline void unlink_marked(SoloTeam& team, const State& state, const u32* ids, u32 count) {
  ChainFetcher fetcher;
  const bool ahead = fetches_ahead(team, state);
  BLOCKSTEP_ROLLED
  for (u32 i = 0; i < count; ++i) {
    if (ahead) fetcher.fetch_ahead(state, i, count, [&](u32 at) { return bucket_of(state, state.blocks[ids[at]]); });
    Block& block = state.blocks[ids[i]];
    if (!(block.flags & kDropped)) continue;
    u32* link = bucket_of(state, block);
    BLOCKSTEP_ROLLED
    while (*link != ids[i]) link = &state.blocks[*link].next;
    *link = block.next;
    block.flags = 0;
  }
}

/// Removes the blocks among `ids` that are marked kDropped from their chains, and clears their
/// flags. Ids may repeat. `marked` is the number of blocks that this member marked. Ends
/// synchronised.
template <Team T>
BLOCKSTEP_HD inline void drop_marked(T& team, State& state, const u32* ids, u32 count, u32 marked) {
  u32 total;
  team.scan(marked, total);
  if (total == 0) return;
  state.num_published -= total;
  state.evictions += total;
  if constexpr (std::is_same_v<T, SoloTeam>) return unlink_marked(team, state, ids, count);
  // Several dropped blocks may share a bucket. The member that locks it first rebuilds the chain
  // without all of them.
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Block& block = state.blocks[ids[i]];
    // Read once, because another member may set a flag of the block concurrently. The group does
    // not change.
    const u32 flags = team.load(&block.flags);
    if (!(flags & kDropped)) continue;
    u32* bucket = bucket_of(state, block.key, flags >> kGroupShift);
    u32 id = team.fetch_or(bucket, kLock);
    if (id & kLock) continue;
    team.fetch_or(&block.flags, kUnlinker);
    u32 first = kNullBlock;
    u32 last = kNullBlock;
    BLOCKSTEP_ROLLED
    for (; id != kNullBlock; id = state.blocks[id].next) {
      if (!(team.load(&state.blocks[id].flags) & kPublished)) continue;
      (last == kNullBlock ? first : state.blocks[last].next) = id;
      last = id;
    }
    if (last != kNullBlock) state.blocks[last].next = kNullBlock;
    team.store(bucket, first | kLock);
  }
  team.sync();
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Block& block = state.blocks[ids[i]];
    const u32 flags = team.load(&block.flags);
    if (flags & kUnlinker) team.fetch_and(bucket_of(state, block.key, flags >> kGroupShift), ~kLock);
    if (flags & kDropped) team.fetch_and(&block.flags, kPublished);
  }
  team.sync();
}

/// Drops the keys of these blocks. Blocks that are not published stay as they are. Ids may repeat.
template <Team T>
BLOCKSTEP_HD inline u32 evict(T& team, State& state, const u32* ids, u32 count) {
  u32 marked = 0;
  const bool ahead = fetches_ahead(team, state);
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i < count; i += team.size()) {
    if (ahead) fetch(i, count, kFar, [&](u32 at) { return &state.blocks[ids[at]]; });
    u32* flags = &state.blocks[ids[i]].flags;
    if (!(team.fetch_and(flags, ~u32{kPublished}) & kPublished)) continue;
    team.fetch_or(flags, kDropped);
    marked += 1;
  }
  drop_marked(team, state, ids, count, marked);
  return kNoFault;
}

/// Drops the keys of all blocks, like vLLM's reset_prefix_cache. All blocks except the null block
/// and the permanently pinned blocks must be free. Stamps continue with the next number.
template <Team T>
BLOCKSTEP_HD inline u32 reset(T& team, State& state) {
  if (state.num_free != state.config.num_blocks - 1 - state.config.num_kept) return kBlocksInUse;
  if (state.num_published == 0) return kNoFault;
  BLOCKSTEP_ROLLED
  for (u32 i = team.rank(); i <= state.bucket_mask; i += team.size()) state.buckets[i] = kNullBlock;
  BLOCKSTEP_ROLLED
  for (u32 id = team.rank(); id < state.config.num_blocks; id += team.size()) state.blocks[id].flags = 0;
  state.num_published = 0;
  team.sync();
  return kNoFault;
}

}  // namespace blockstep
