// The whole state of the block manager and the KV slot table: plain arrays of fixed-width types in one piece of memory.
//
// Only apply() and decide() write the state. The same bytes serve the host and a GPU, so the arrays hold no pointer, no
// bool and no size_t. Every member of a team copies the scalars of State when apply() begins, and rank 0 writes them
// back when it ends. In between each member changes its own copy, and all copies hold the same values (except the
// rolling digest, see note_command() in apply.h).
#pragma once

#include <type_traits>

#include "types.h"

namespace blockstep {

constexpr u32 kMaxBlocks = 1u << 24;  // the ring has up to 4 * kMaxBlocks places, which must fit in 31 bits
constexpr u32 kMaxRows = 1u << 21;
constexpr u32 kMaxBlocksPerRow = 1u << 20;  // so that a team of up to 2,048 members can sum row lengths in 32 bits
constexpr u32 kForceBits = 0x100;           // see Config::bucket_bits
constexpr u32 kMaxGroups = 8;

struct Config {
  u32 num_blocks;          // the null block included; 2 .. kMaxBlocks
  u32 num_rows;            // 1 .. kMaxRows
  u32 max_blocks_per_row;  // 1 .. kMaxBlocksPerRow
  u32 bucket_bits;         // 0: at least two buckets per block. kForceBits + (0 .. 24): that many bits, for tests.
  // KV cache groups: 1 .. kMaxGroups. A request holds one row for each group, next to each other: row r belongs to
  // group r % num_groups, so num_rows is a multiple of it. A key is published for one group and found by that group alone.
  u32 num_groups = 1;
  u32 num_kept = 0;        // blocks that are pinned for good, from the head of the first queue (sinks); < num_blocks - 1
  u32 unhashed_first = 0;  // 1: blocks that are let go without a key are queued before the head, see let_go(). 0: at the tail
};

/// Bits of Block::flags. All but kPublished and the group are zero between commands.
enum BlockFlag : u32 {
  kPublished = 1u << 0,  // key and stamp are valid and the block is in the chain of its bucket
  kDropped = 1u << 1,    // unpublished by the current command, but still in its chain
  kUnlinker = 1u << 2,   // the member that handles this block holds the lock of its bucket
  kGroupShift = 8,       // from this bit on: the group of the key; it means something while the block is published
};

/// All metadata of one block, in one struct, because code that touches a block touches most of its fields.
struct Block {
  Key key;         // valid while published
  u64 stamp;       // publication number: 1, 2, 3, ...; of the blocks with one key the smallest stamp is the hit
  u32 ref;         // rows that hold the block, plus pins; 0 = the block is in the free queue
  u32 pins;        // references from pins instead of rows; counted in ref too
  u32 place;       // ref == 0: its place in the ring. Otherwise scratch.
  u32 next;        // next block in the chain of its bucket; kNullBlock ends a chain
  u32 generation;  // how often Extend took the block
  u32 flags;       // BlockFlag, and the group of the key
};
static_assert(sizeof(Block) == 48);

/// A row of the KV slot table: the list of blocks that one request holds in one group. A place of the list may hold the null
/// block: then the place counts, and holds nothing.
struct Row {
  u32 in_use;
  u32 num_blocks;  // valid entries in its part of State::row_blocks; 0 when not in use
  u32 generation;  // how often the row was opened
  u32 claimed;     // scratch of Extend: the current command names this row already. Otherwise zero.
};

/// Scratch of Extend: which of the blocks taken go to one row.
struct Grant {
  u32 first;  // index of the row's first new block among all blocks taken
  u32 row;
  u32 at;     // index of that first block in the row
};

/// State::unread while no compaction of the free queue is under way.
constexpr u64 kIdle = ~u64{0};

/// The first place of the first queue. Blocks that are queued before the head move it back, so it starts far from 0: one
/// block a nanosecond would take 146 years to get there.
constexpr u64 kFirstPlace = u64{1} << 62;

struct State {
  Config config;
  u32 ring_mask;    // places in the ring, minus one
  u32 bucket_mask;  // buckets, minus one

  // Counts that the host reads.
  u32 num_free;       // blocks in the free queue
  u32 num_published;  // blocks that carry a key
  u32 rows_in_use;
  u32 fault;          // Fault of the first command that failed; after that nothing is applied
  u64 evictions;      // keys dropped by Extend and Evict since the start

  // The free queue lies in places [head, tail); a place p is ring[p & ring_mask]. While a compaction is under way,
  // [head, packed) has been compacted, [packed, unread) holds no live place, [unread, tail) is still to be read.
  u64 head;
  u64 tail;
  u64 packed;
  u64 unread;  // kIdle: no compaction

  u64 next_stamp;
  u64 num_taken;       // blocks taken by Extend since the start
  u64 num_commands;    // commands applied since the start
  u64 rolling_digest;  // of the results of all commands so far; does not depend on how they were cut into logs

  Block* blocks;    // [num_blocks]
  u32* ring;        // [ring_mask + 1] block ids
  u32* live;        // [(ring_mask + 1) / 32] one bit per place; only the bits of places in [head, tail) mean anything
  u32* buckets;     // [bucket_mask + 1] first block of a chain, kNullBlock when empty
  Row* rows;        // [num_rows]
  u32* row_blocks;  // [num_rows][max_blocks_per_row] block ids
  Grant* grants;    // [num_rows] scratch
};

/// Whether a configuration is within the limits stated at its fields.
inline bool valid(const Config& c) {
  const bool bits = c.bucket_bits == 0 || (c.bucket_bits >= kForceBits && c.bucket_bits <= kForceBits + 24);
  const bool groups = c.num_groups >= 1 && c.num_groups <= kMaxGroups && c.num_rows % c.num_groups == 0;
  return bits && groups && c.unhashed_first <= 1 && c.num_kept < c.num_blocks - 1 && c.num_blocks >= 2 && c.num_blocks <= kMaxBlocks && c.num_rows >= 1 && c.num_rows <= kMaxRows &&
         c.max_blocks_per_row >= 1 && c.max_blocks_per_row <= kMaxBlocksPerRow;
}

/// The smallest power of two that is at least `least` and at least 32.
inline u32 round_to_power(u64 least) {
  u32 power = 32;
  while (power < least) power <<= 1;
  return power;
}

/// Places in the ring: four per block, and upkeep() in free_queue.h proves that this is enough. At least two words of
/// live bits, because blocks that are appended together may cross a word boundary: with a single word they would wrap
/// around into the word they started in.
inline u32 ring_places(const Config& c) {
  const u32 places = round_to_power(u64{4} * c.num_blocks);
  return places < 64 ? 64 : places;
}

inline u32 num_buckets(const Config& c) {
  return c.bucket_bits ? 1u << (c.bucket_bits - kForceBits) : round_to_power(u64{2} * c.num_blocks);
}

/// Points the arrays of `state` into memory from `base` on, each at a cache line of its own, and returns the bytes that
/// they take. A null `base` only counts the bytes.
inline u64 lay_out(State& state, const Config& c, u8* base) {
  u64 used = 0;
  const auto place = [&](auto*& array, u64 count) {
    using Element = std::remove_reference_t<decltype(*array)>;
    array = base ? reinterpret_cast<Element*>(base + used) : nullptr;
    used += (count * sizeof(Element) + 63) & ~u64{63};
  };
  place(state.blocks, c.num_blocks);
  place(state.ring, ring_places(c));
  place(state.live, ring_places(c) / 32);
  place(state.buckets, num_buckets(c));
  place(state.rows, c.num_rows);
  place(state.grants, c.num_rows);
  place(state.row_blocks, u64{c.num_rows} * c.max_blocks_per_row);  // last: untouched pages cost nothing
  return used;
}

/// Bytes of memory that the arrays of a state of this configuration need.
inline u64 state_bytes(const Config& config) {
  State unbound;
  return lay_out(unbound, config, nullptr);
}

/// Binds `state` to `memory`: state_bytes(config) zeroed bytes, aligned to 64. The caller must call init_state() next.
inline void bind_state(State& state, const Config& config, void* memory) {
  state = State{};
  state.config = config;
  state.ring_mask = ring_places(config) - 1;
  state.bucket_mask = num_buckets(config) - 1;
  lay_out(state, config, static_cast<u8*>(memory));
}

/// Writes the scalars of the initial state, see init_state().
inline void init_scalars(State& state) {
  state.head = kFirstPlace + 1 + state.config.num_kept;
  state.tail = kFirstPlace + state.config.num_blocks;
  state.num_free = state.config.num_blocks - 1 - state.config.num_kept;
  state.packed = 0;
  state.unread = kIdle;
  state.next_stamp = 1;
}

/// Writes the share of member `rank` of `size` in the arrays of the initial state: 32 places of the queue per turn,
/// which are one word of live bits. The members need not synchronise.
BLOCKSTEP_HD inline void init_arrays(const State& state, u32 rank, u32 size) {
  const u32 n = state.config.num_blocks;
  for (u32 word = rank; word < (n + 31) / 32; word += size) {
    u32 bits = 0;
    for (u32 bit = 0; bit < 32; ++bit) {
      const u32 id = word * 32 + bit;
      if (id == kNullBlock || id >= n) continue;
      state.ring[id] = id;
      state.blocks[id].place = id;
      if (id <= state.config.num_kept) state.blocks[id].ref = state.blocks[id].pins = 1;
      bits |= 1u << bit;
    }
    state.live[word] = bits;
  }
}

/// Writes the initial state over zeroed memory: all blocks but the null block and those that are kept for good are free,
/// queued in ascending order of their ids, and nothing is published.
inline void init_state(State& state) {
  init_arrays(state, 0, 1);
  init_scalars(state);
}

/// The group that a row belongs to.
BLOCKSTEP_HD inline u32 group_of_row(const State& state, u32 row) {
  // Most pools have one group, and a division costs as much as the rest of a publication.
  return state.config.num_groups == 1 ? 0 : row % state.config.num_groups;
}

/// The group of the key of a published block.
BLOCKSTEP_HD inline u32 group_of(const Block& block) { return block.flags >> kGroupShift; }

/// The block list of a row.
BLOCKSTEP_HD inline u32* blocks_of(const State& state, u32 row) {
  return state.row_blocks + u64{row} * state.config.max_blocks_per_row;
}

}  // namespace blockstep
