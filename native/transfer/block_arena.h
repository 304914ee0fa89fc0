// BlockArena: blocks of bytes in native memory. It holds one tier of KV blocks, or emulates device
// memory.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "block_memory.h"

namespace blockstep {

/// num_blocks x bytes_per_block zeroed bytes, and for each block a count of its fills by lanes.
/// Every reader and writer holds an arena by shared_ptr, because a lane can outlive the object that
/// made the arena.
class BlockArena {
 public:
  /// An arena in host memory. Both arguments are at least 1. @throws Error kNoMemory,
  /// std::bad_alloc
  BlockArena(u32 num_blocks, u64 bytes_per_block)
      : BlockArena(num_blocks, bytes_per_block, std::make_unique<HostBlocks>(u64{num_blocks} * bytes_per_block)) {}
  /// An arena in `memory`, which has exactly num_blocks x bytes_per_block bytes. @throws
  /// std::bad_alloc
  BlockArena(u32 num_blocks, u64 bytes_per_block, std::unique_ptr<BlockMemory> memory)
      : num_blocks_(num_blocks), bytes_per_block_(bytes_per_block), memory_(std::move(memory)), arrivals_(num_blocks) {}

  u32 num_blocks() const { return num_blocks_; }
  u64 bytes_per_block() const { return bytes_per_block_; }
  u64 bytes() const { return memory_->bytes(); }
  Place place() const { return memory_->place(); }
  u32 device() const { return memory_->device(); }
  BlockMemory& memory() const { return *memory_; }
  /// The first block. For Place::kDevice this is an address of the GPU: only CUDA calls and kernels
  /// may use it.
  u8* base() const { return memory_->base(); }
  u8* block(u32 id) const { return base() + id * bytes_per_block_; }
  /// The first block at its address for kernels. Null for memory that CUDA does not know.
  u8* on_device() const { return memory_->on_device(); }

  /// Copies the bytes of one block out of the arena, or into it. On a GPU the call waits for the
  /// copy.
  /// @throws Error kCuda
  void read_block(u32 id, void* to) const { memory_->read(id * bytes_per_block_, to, bytes_per_block_); }
  void write_block(u32 id, const void* from) { memory_->write(id * bytes_per_block_, from, bytes_per_block_); }

  /// Counts that a lane has completely filled blocks [first, first + count). Any thread may call it
  /// once the bytes are written.
  void arrived(u32 first, u32 count) {
    for (u32 i = first; i < first + count; ++i) arrivals_[i].fetch_add(1, std::memory_order_release);
  }
  /// Number of times that lanes filled a block, modulo 2^32.
  u32 arrivals(u32 id) const { return arrivals_[id].load(std::memory_order_acquire); }

 private:
  u32 num_blocks_;
  u64 bytes_per_block_;
  std::unique_ptr<BlockMemory> memory_;
  std::vector<std::atomic<u32>> arrivals_;
};

}  // namespace blockstep
