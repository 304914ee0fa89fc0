// The KV memory as the reference model uses it, wherever it lies.
#pragma once

#include <memory>

#include "../../base/span.h"
#include "../../transfer/block_arena.h"
#include "kv_entry.h"

namespace blockstep {

/// Where the tables of a step name the slot of a token: at an index of the slot mapping or, if that is kNone, in the
/// block table, in the row of the token's entry, by the token's position.
struct SlotSource {
  u32 entry;
  u32 mapping;
};

/// An entry that went elsewhere, or nowhere, because the tables named another slot when it was written than when it was
/// placed.
struct Astray {
  u32 entry;
  u32 position;
  std::int64_t expected;
  std::int64_t found;
};

/// num_blocks blocks of block_size entries, in the blocks of an arena that lanes may copy. In each step all entries are
/// placed first, and read back when all of them are there.
class EntryMemory {
 public:
  explicit EntryMemory(std::shared_ptr<BlockArena> blocks) : blocks_(std::move(blocks)) {}
  virtual ~EntryMemory() = default;

  /// The place to write the entry that belongs into `slot`, a slot of this memory. Memory that reads the tables itself
  /// goes by `source`.
  virtual KvEntry& place(SlotSource source, u64 slot) = 0;
  /// The entries placed in this step that went astray. Memory that is written at once has none.
  virtual Span<const Astray> astray() { return {nullptr, 0}; }
  /// The entries of `block`, a block of this memory, which the block table names at `index` in the row of an entry.
  virtual const KvEntry* read(u32 entry, u32 index, u32 block) = 0;
  /// Gives the entries that lanes have filled a block with this generation, or wipes the block if it was not `filled`.
  virtual void adopt(u32 block, u32 generation, bool filled) = 0;

  const std::shared_ptr<BlockArena>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<BlockArena> blocks_;
};

}  // namespace blockstep
