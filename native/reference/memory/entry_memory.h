// EntryMemory: the KV memory for the reference model, on the host or on a GPU.
#pragma once

#include <memory>

#include "../../base/span.h"
#include "../../transfer/block_arena.h"
#include "kv_entry.h"

namespace blockstep {

/// The position of a token's slot in the tables of a step, which are those of the entry's KV cache
/// group. `mapping` is an index of the slot mapping. If `mapping` is kNone, the block table
/// determines the slot, by row `entry` and the token's position. `slot` is the current slot.
struct SlotSource {
  u32 entry;
  u32 mapping;
  std::int64_t slot;
};

/// A KvEntry that was written to a different slot than the place() call named, or to no slot,
/// because the tables changed before the write. `entry` is the entry of the step. `expected` and
/// `found` are slots of the group.
struct Astray {
  u32 entry;
  u32 group;
  u32 position;
  std::int64_t expected;
  std::int64_t found;
};

/// num_blocks blocks of block_size entries, in the blocks of an arena that lanes may copy. In each
/// step states are saved first, then entries are placed. They are read back after all of them are
/// written. Afterwards a step may place more entries.
class EntryMemory {
 public:
  explicit EntryMemory(std::shared_ptr<BlockArena> blocks) : blocks_(std::move(blocks)) {}
  virtual ~EntryMemory() = default;

  /// Begins a step.
  virtual void begin() {}
  /// Keeps the first entry of `block`, a state, as it is before this step writes any entry. The
  /// block table of the group names the block, which belongs to this memory, at `index` in row
  /// `entry`.
  virtual void save(u32 group, u32 entry, u32 index, u32 block) = 0;
  /// The entry that the n-th save() of this step kept.
  virtual const KvEntry* saved(u32 n) = 0;
  /// Writes an entry `count` times, from the entry `at` of this memory on. A memory that reads the
  /// tables itself looks up the slot again, by `source`.
  virtual void place(const SlotSource& source, u64 at, u32 count, const KvEntry& entry) = 0;
  /// The astray entries among the written entries of this step, since the last call. A memory that
  /// writes at once has none.
  virtual Span<const Astray> astray() { return {nullptr, 0}; }
  /// The block_size entries of `block`, a block of this memory. The block table of the group names
  /// it at `index` in row `entry`.
  virtual const KvEntry* read(u32 group, u32 entry, u32 index, u32 block) = 0;
  /// Sets the generation of all entries of a block that lanes have filled, or wipes the block if it
  /// was not `filled`.
  virtual void adopt(u32 block, u32 generation, bool filled) = 0;

  const std::shared_ptr<BlockArena>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<BlockArena> blocks_;
};

}  // namespace blockstep
