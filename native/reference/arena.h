// The KV memory of the reference executor, in the shape of a real one: num_blocks blocks of block_size entries.
#pragma once

#include "../core/types.h"
#include "../host/memory.h"

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
  u32 unused;
};

/// 32 bytes a token and 16 a block, zeroed, which take memory where they are written.
class Arena {
 public:
  /// @throws Error kNoMemory
  Arena(u32 num_blocks, u32 block_size)
      : num_blocks_(num_blocks),
        block_size_(block_size),
        entries_(u64{num_blocks} * block_size * sizeof(KvEntry)),
        possessions_(u64{num_blocks} * sizeof(Possession)) {}

  u64 num_slots() const { return u64{num_blocks_} * block_size_; }
  u32 num_blocks() const { return num_blocks_; }
  KvEntry& at(u64 slot) { return static_cast<KvEntry*>(entries_.base())[slot]; }
  Possession& possession(u32 block) { return static_cast<Possession*>(possessions_.base())[block]; }
  u64 bytes() const { return entries_.bytes() + possessions_.bytes(); }

 private:
  u32 num_blocks_;
  u32 block_size_;
  Memory entries_;
  Memory possessions_;
};

}  // namespace blockstep
