// The whole state of the block manager and the KV slot table: arrays of fixed-width types in one
// piece of memory.
//
// Only apply() and decide() write the state. The same bytes serve the host and a GPU, so the arrays
// hold no pointer, no bool and no size_t. Every member of a team copies the scalars of State when
// apply() begins, and rank 0 writes them back when it ends. In between each member changes its own
// copy. All copies hold the same values, except the rolling digest: see note_command() in apply.h.
#pragma once

#include <type_traits>

#include "types.h"

namespace blockstep {

// The ring has up to 4 * kMaxBlocks places, which must fit in 31 bits.
constexpr u32 kMaxBlocks = 1u << 24;
constexpr u32 kMaxRows = 1u << 21;
// A team of up to 2,048 members can then sum row lengths in 32 bits.
constexpr u32 kMaxBlocksPerRow = 1u << 20;
constexpr u32 kForceBits = 0x100;           // see Config::bucket_bits
constexpr u32 kMaxGroups = 8;

struct Config {
  u32 num_blocks;          // including the null block; 2 .. kMaxBlocks
  u32 num_rows;            // 1 .. kMaxRows
  u32 max_blocks_per_row;  // 1 .. kMaxBlocksPerRow
  // 0: at least three buckets per block. kForceBits + (0 .. 24): this number of bits, for tests.
  u32 bucket_bits;
  // KV cache groups: 1 .. kMaxGroups. A request holds one row for each group, in adjacent rows. Row
  // r belongs to group r % num_groups, so num_rows is a multiple of num_groups. A key is published
  // for one group, and only that group finds it.
  u32 num_groups = 1;
  // Blocks that are pinned permanently (sinks), from the head of the first queue; < num_blocks - 1.
  u32 num_kept = 0;
  // 1: dropped blocks without a key are queued before the head, see let_go(). 0: at the tail.
  u32 unhashed_first = 0;
};

/// Bits of Block::flags. All but kPublished and the group are zero between commands.
enum BlockFlag : u32 {
  kPublished = 1u << 0,  // key and stamp are valid and the block is in the chain of its bucket
  kDropped = 1u << 1,    // unpublished by the current command, but still in its chain
  kUnlinker = 1u << 2,   // the member that handles this block holds the lock of its bucket
  kGroupShift = 8,       // first bit of the group of the key; valid while the block is published
};

/// The metadata of one block. It is one struct, because code that touches a block touches most of
/// its fields. Half of these structs straddle two cache lines. Aligned to 64 bytes none would, and
/// hits in a scattered pool of a million blocks would cost a fifth less. But a pool of 32 k would
/// then exceed the second-level cache: its hits would cost an eighth more, and its releases far
/// more.
struct Block {
  Key key;         // valid while published
  u64 stamp;       // publication number: 1, 2, ...; a lookup hits the smallest of a key
  u32 ref;         // rows that hold the block, plus pins; 0 = the block is in the free queue
  u32 pins;        // references from pins instead of rows; also counted in ref
  u32 place;       // ref == 0: its place in the ring. Otherwise scratch.
  u32 next;        // next block in the chain of its bucket; kNullBlock ends a chain
  u32 generation;  // number of times that Extend took the block
  u32 flags;       // BlockFlag, and the group of the key
};
static_assert(sizeof(Block) == 48);

/// A row of the KV slot table: the list of blocks that one request holds in one group. A place of
/// the list may hold the null block. Such a place counts, but is empty.
struct Row {
  u32 in_use;
  u32 num_blocks;  // valid entries in its part of State::row_blocks; 0 when not in use
  u32 generation;  // number of times that the row was opened
  u32 claimed;     // scratch of Extend: the current command already names this row; otherwise zero
};

/// Scratch of Extend: the range of the taken blocks that goes to one row.
struct Grant {
  u32 first;  // index of the row's first new block among all blocks taken
  u32 row;
  u32 at;     // index of that first block in the row
};

/// State::unread while no compaction of the free queue is under way.
constexpr u64 kIdle = ~u64{0};

/// The first place of the first queue. Blocks that are queued before the head move it back, so it
/// starts far from 0. At one block a nanosecond, it would reach 0 after 146 years.
constexpr u64 kFirstPlace = u64{1} << 62;

struct State {
  Config config;
  u32 ring_mask;    // places in the ring, minus one
  u32 bucket_mask;  // buckets, minus one

  // Counts that the host reads:
  u32 num_free;       // blocks in the free queue
  u32 num_published;  // blocks that carry a key
  u32 rows_in_use;
  u32 fault;          // Fault of the first command that failed; afterwards no command is applied
  u64 evictions;      // keys dropped by Extend and Evict since the start

  // The free queue lies in places [head, tail), and a place p is ring[p & ring_mask]. During a
  // compaction, [head, packed) is compacted, [packed, unread) holds no live place, and [unread,
  // tail) is still to be read.
  u64 head;
  u64 tail;
  u64 packed;
  u64 unread;  // kIdle: no compaction

  u64 next_stamp;
  u64 num_taken;       // blocks taken by Extend since the start
  u64 num_commands;    // commands applied since the start
  u64 rolling_digest;  // of all results so far; independent of the cuts between logs

  Block* blocks;    // [num_blocks]
  u32* ring;        // [ring_mask + 1] block ids
  u32* live;        // [(ring_mask + 1) / 32] a bit per place, valid in [head, tail)
  u32* buckets;     // [bucket_mask + 1] first block of a chain, kNullBlock if empty
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

/// Places in the ring: four per block. upkeep() in free_queue.h proves that four are enough. There
/// are at least two words of live bits, because blocks that are appended together may cross a word
/// boundary. A single word would wrap around to itself.
inline u32 ring_places(const Config& c) {
  const u32 places = round_to_power(u64{4} * c.num_blocks);
  return places < 64 ? 64 : places;
}

/// Buckets of the prefix index. With this number, few chains have a second block, which costs
/// another cache miss.
inline u32 num_buckets(const Config& c) {
  return c.bucket_bits ? 1u << (c.bucket_bits - kForceBits) : round_to_power(u64{3} * c.num_blocks);
}

/// Points the arrays of `state` into memory from `base` on, each at the start of a cache line.
/// Returns the bytes that they take. With a null `base`, it only counts the bytes.
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

/// Binds `state` to `memory`: state_bytes(config) zeroed bytes, aligned to 64. The caller must call
/// init_state() next.
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

/// Writes the share of member `rank` of `size` in the arrays of the initial state. A turn covers 32
/// places of the queue, which are one word of live bits. The members need not synchronise.
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

/// Writes the initial state over zeroed memory. All blocks except the null block and the
/// permanently pinned blocks are free, queued in ascending order of their ids. No block is
/// published.
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
