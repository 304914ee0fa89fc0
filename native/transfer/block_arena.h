// Blocks of bytes in native memory: one tier of KV blocks, or what stands in for a device.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "block_memory.h"

namespace blockstep {

/// num_blocks x bytes_per_block bytes, zeroed; and how often each block was filled by a lane. Shared by whoever still reads
/// or writes it: lanes outlive the object that made the arena.
class BlockArena {
 public:
  /// In memory of the host. Both at least 1. @throws Error kNoMemory, std::bad_alloc
  BlockArena(u32 num_blocks, u64 bytes_per_block)
      : BlockArena(num_blocks, bytes_per_block, std::make_unique<HostBlocks>(u64{num_blocks} * bytes_per_block)) {}
  /// In `memory`, of just that size. @throws std::bad_alloc
  BlockArena(u32 num_blocks, u64 bytes_per_block, std::unique_ptr<BlockMemory> memory)
      : num_blocks_(num_blocks), bytes_per_block_(bytes_per_block), memory_(std::move(memory)), arrivals_(num_blocks) {}

  u32 num_blocks() const { return num_blocks_; }
  u64 bytes_per_block() const { return bytes_per_block_; }
  u64 bytes() const { return memory_->bytes(); }
  Place place() const { return memory_->place(); }
  u32 device() const { return memory_->device(); }
  /// Of an arena on a GPU these are addresses there, which only CUDA calls and kernels may use.
  u8* base() const { return memory_->base(); }
  u8* block(u32 id) const { return base() + id * bytes_per_block_; }
  /// The first block as a kernel sees it; null for memory that CUDA does not know.
  u8* on_device() const { return memory_->on_device(); }

  /// The bytes of one block, copied out and in: wherever they are, and waiting for a GPU. @throws Error kCuda
  void read_block(u32 id, void* to) const { memory_->read(id * bytes_per_block_, to, bytes_per_block_); }
  void write_block(u32 id, const void* from) { memory_->write(id * bytes_per_block_, from, bytes_per_block_); }

  /// Notes that these blocks were filled whole. Any thread, once their bytes are written.
  void arrived(u32 first, u32 count) {
    for (u32 i = first; i < first + count; ++i) arrivals_[i].fetch_add(1, std::memory_order_release);
  }
  /// How often a block was filled, modulo 2^32.
  u32 arrivals(u32 id) const { return arrivals_[id].load(std::memory_order_acquire); }

 private:
  u32 num_blocks_;
  u64 bytes_per_block_;
  std::unique_ptr<BlockMemory> memory_;
  std::vector<std::atomic<u32>> arrivals_;
};

}  // namespace blockstep
