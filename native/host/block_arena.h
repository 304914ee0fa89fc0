// Blocks of bytes in native memory: one tier of KV blocks, or what stands in for a device.
#pragma once

#include <atomic>
#include <vector>

#include "memory.h"

namespace blockstep {

/// num_blocks x bytes_per_block bytes, zeroed, which take memory where they are written; and how often each block was
/// filled by a lane. Shared by whoever still reads or writes it: lanes outlive the object that made the arena.
class BlockArena {
 public:
  /// Both at least 1. @throws Error kNoMemory, std::bad_alloc
  BlockArena(u32 num_blocks, u64 bytes_per_block)
      : num_blocks_(num_blocks),
        bytes_per_block_(bytes_per_block),
        memory_(u64{num_blocks} * bytes_per_block),
        arrivals_(num_blocks) {}

  u32 num_blocks() const { return num_blocks_; }
  u64 bytes_per_block() const { return bytes_per_block_; }
  u64 bytes() const { return memory_.bytes(); }
  u8* base() const { return static_cast<u8*>(memory_.base()); }
  u8* block(u32 id) const { return base() + id * bytes_per_block_; }

  /// Notes that these blocks were filled whole. Any thread, once their bytes are written.
  void arrived(u32 first, u32 count) {
    for (u32 i = first; i < first + count; ++i) arrivals_[i].fetch_add(1, std::memory_order_release);
  }
  /// How often a block was filled, modulo 2^32.
  u32 arrivals(u32 id) const { return arrivals_[id].load(std::memory_order_acquire); }

 private:
  u32 num_blocks_;
  u64 bytes_per_block_;
  Memory memory_;
  std::vector<std::atomic<u32>> arrivals_;
};

}  // namespace blockstep
