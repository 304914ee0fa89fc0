// EntryMemory: the KV memory as the reference model uses it, on the host or on a GPU.
#pragma once

#include <memory>

#include "../../base/span.h"
#include "../../transfer/block_arena.h"
#include "kv_entry.h"

namespace blockstep {

/// Where the tables of a step name the slot of a token: those of the entry's KV cache group. `mapping` is an index of the slot
/// mapping. If `mapping` is kNone, the block table names the slot: by row `entry` and the token's position. `slot` is what
/// they name now.
struct SlotSource {
  u32 entry;
  u32 mapping;
  std::int64_t slot;
};

/// A KvEntry that was written to another slot than it was placed for, or to no slot, because the tables changed between
/// place() and the write. `entry` is the entry of the step, `expected` and `found` are slots of the group.
struct Astray {
  u32 entry;
  u32 group;
  u32 position;
  std::int64_t expected;
  std::int64_t found;
};

/// num_blocks blocks of block_size entries, in the blocks of an arena that lanes may copy. In each step states are saved first,
/// then entries are placed; they are read back when all of them are written. Behind that a step may place more.
class EntryMemory {
 public:
  explicit EntryMemory(std::shared_ptr<BlockArena> blocks) : blocks_(std::move(blocks)) {}
  virtual ~EntryMemory() = default;

  /// Begins a step.
  virtual void begin() {}
  /// Keeps the first entry of `block` as it is before this step writes any: a state. The block table of the group names the
  /// block, which is one of this memory, at `index` in row `entry`.
  virtual void save(u32 group, u32 entry, u32 index, u32 block) = 0;
  /// What the n-th save() of this step has kept.
  virtual const KvEntry* saved(u32 n) = 0;
  /// Writes an entry `count` times, from the entry `at` of this memory on. Memory that reads the tables itself looks the slot
  /// up again where `source` says.
  virtual void place(const SlotSource& source, u64 at, u32 count, const KvEntry& entry) = 0;
  /// The entries that went astray of those that were placed in this step since the last call, and are written. Memory that is
  /// written immediately has none.
  virtual Span<const Astray> astray() { return {nullptr, 0}; }
  /// The block_size entries of `block`, a block of this memory. The block table of the group names it at `index` in row `entry`.
  virtual const KvEntry* read(u32 group, u32 entry, u32 index, u32 block) = 0;
  /// Sets the generation of all entries of a block that lanes have filled, or wipes the block if it was not `filled`.
  virtual void adopt(u32 block, u32 generation, bool filled) = 0;

  const std::shared_ptr<BlockArena>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<BlockArena> blocks_;
};

}  // namespace blockstep
