// The KV memory of the reference executor, in the shape of a real one: num_blocks blocks of block_size entries.
#pragma once

#include <memory>

#include "../host/block_arena.h"

namespace blockstep {

/// What stands for the KV of one token. It says everything that decides a real one, and who wrote it.
struct KvEntry {
  u64 hash;   // of adapter, salt and all tokens up to and including this one
  u64 owner;  // handle of the request that wrote it; 0 = never written
  std::int32_t token;
  u32 position;
  u32 generation;  // of the block, when it was written
  u32 unused;
};
static_assert(sizeof(KvEntry) == 32);

/// Who took a block from the free queue last, and how often anybody did, as far as plans told.
struct Possession {
  u64 owner;
  u32 generation;
  u32 arrivals;  // how often lanes had filled it then
};

/// 32 bytes a token and 20 a block, zeroed, which take memory where they are written. Lanes copy the entries.
class Arena {
 public:
  /// @throws Error kNoMemory, std::bad_alloc
  Arena(u32 num_blocks, u32 block_size)
      : num_blocks_(num_blocks),
        block_size_(block_size),
        blocks_(std::make_shared<BlockArena>(num_blocks, u64{block_size} * sizeof(KvEntry))),
        entries_(reinterpret_cast<KvEntry*>(blocks_->base())),
        possessions_(u64{num_blocks} * sizeof(Possession)) {}

  u64 num_slots() const { return u64{num_blocks_} * block_size_; }
  u32 num_blocks() const { return num_blocks_; }
  KvEntry& at(u64 slot) { return entries_[slot]; }
  Possession& possession(u32 block) { return static_cast<Possession*>(possessions_.base())[block]; }
  u64 bytes() const { return blocks_->bytes() + possessions_.bytes(); }
  /// How often lanes have filled a block.
  u32 arrivals(u32 block) const { return blocks_->arrivals(block); }
  const std::shared_ptr<BlockArena>& blocks() const { return blocks_; }

 private:
  u32 num_blocks_;
  u32 block_size_;
  std::shared_ptr<BlockArena> blocks_;
  KvEntry* entries_;
  Memory possessions_;
};

}  // namespace blockstep
