// EntryMemory: the KV memory as the reference model uses it, on the host or on a GPU.
#pragma once

#include <memory>

#include "../../base/span.h"
#include "../../transfer/block_arena.h"
#include "kv_entry.h"

namespace blockstep {

/// Where the tables of a step name the slot of a token. `mapping` is an index of the slot mapping. If `mapping` is
/// kNone, the block table names the slot: by row `entry` and the token's position.
struct SlotSource {
  u32 entry;
  u32 mapping;
};

/// A KvEntry that was written to another slot than it was placed for, or to no slot, because the tables changed between
/// place() and the write. `entry` is the entry of the step, `expected` and `found` are slots.
struct Astray {
  u32 entry;
  u32 position;
  std::int64_t expected;
  std::int64_t found;
};

/// num_blocks blocks of block_size entries, in the blocks of an arena that lanes may copy. In each step all entries are
/// placed first; they are read back when all of them are written.
class EntryMemory {
 public:
  explicit EntryMemory(std::shared_ptr<BlockArena> blocks) : blocks_(std::move(blocks)) {}
  virtual ~EntryMemory() = default;

  /// Returns where to write the entry that belongs into `slot`, a slot of this memory. Memory that reads the tables
  /// itself looks the slot up again where `source` says.
  virtual KvEntry& place(SlotSource source, u64 slot) = 0;
  /// The entries placed in this step that went astray. Memory that is written immediately has none.
  virtual Span<const Astray> astray() { return {nullptr, 0}; }
  /// The block_size entries of `block`, a block of this memory. The block table names it at `index` in row `entry`.
  virtual const KvEntry* read(u32 entry, u32 index, u32 block) = 0;
  /// Sets the generation of all entries of a block that lanes have filled, or wipes the block if it was not `filled`.
  virtual void adopt(u32 block, u32 generation, bool filled) = 0;

  const std::shared_ptr<BlockArena>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<BlockArena> blocks_;
};

}  // namespace blockstep
