// HostMemory: KV memory on the host, with the layout of a real KV cache.
#pragma once

#include <algorithm>
#include <vector>

#include "entry_memory.h"

namespace blockstep {

/// 32 bytes per token, zeroed. The operating system provides pages at the first write.
class HostMemory : public EntryMemory {
 public:
  /// @throws Error kNoMemory, std::bad_alloc
  HostMemory(u32 num_blocks, u32 block_size)
      : HostMemory(block_size, std::make_shared<BlockArena>(num_blocks, u64{block_size} * sizeof(KvEntry))) {}
  /// Uses an arena on the host, whose blocks have block_size entries.
  HostMemory(u32 block_size, std::shared_ptr<BlockArena> arena)
      : EntryMemory(std::move(arena)),
        block_size_(block_size),
        entries_(reinterpret_cast<KvEntry*>(blocks()->base())) {}

  void begin() override { saved_.clear(); }
  void save(u32, u32, u32, u32 block) override { saved_.push_back(*block_at(block)); }
  const KvEntry* saved(u32 n) override { return &saved_[n]; }
  void place(const SlotSource&, u64 at, u32 count, const KvEntry& entry) override {
    std::fill_n(entries_ + at, count, entry);
  }
  const KvEntry* read(u32, u32, u32, u32 block) override { return block_at(block); }
  void adopt(u32 block, u32 generation, bool filled) override {
    KvEntry* entries = block_at(block);
    for (u32 at = 0; at < block_size_; ++at) {
      if (filled) entries[at].generation = generation;
      else entries[at] = {};
    }
  }

 private:
  KvEntry* block_at(u32 block) const { return entries_ + u64{block} * block_size_; }

  u32 block_size_;
  KvEntry* entries_;
  std::vector<KvEntry> saved_;
};

}  // namespace blockstep
