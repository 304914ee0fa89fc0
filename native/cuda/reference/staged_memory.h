// StagedMemory: the KV memory of a GPU as the reference model uses it, through pinned memory and kernels.
#pragma once

#include <vector>

#include "../../reference/memory/entry_memory.h"
#include "reference_kernels.h"

namespace blockstep::cuda {

/// An entry that is placed becomes an order for the kernel that writes. Entries that are read come from a copy of what
/// the kernel that reads has brought: every row, from its first block on. Steps use the memory one after the other.
class StagedMemory final : public EntryMemory {
 public:
  StagedMemory(std::shared_ptr<BlockArena> blocks, u32 block_size)
      : EntryMemory(std::move(blocks)), block_size_(block_size), unwritten_(block_size) {}

  /// Begins a step. Its entries will be placed in `orders`, which has room for all of them. Of entry `e` the first
  /// starts[e + 1] - starts[e] blocks will be read. `orders` and `starts` live until the next step begins.
  /// @throws std::bad_alloc
  void begin(EntryOrder* orders, const std::vector<u64>& starts) {
    orders_ = orders;
    num_orders_ = 0;
    starts_ = &starts;
    read_.clear();
    read_.reserve(starts.back() * block_size_);
  }
  u32 num_orders() const { return num_orders_; }
  /// Copies the next blocks that were read, out of the window.
  void take(const KvEntry* window, u32 num_blocks) {
    read_.insert(read_.end(), window, window + u64{num_blocks} * block_size_);
  }

  KvEntry& place(SlotSource source, u64 slot) override {
    EntryOrder& order = orders_[num_orders_++];
    order.row = source.entry;
    order.mapping = source.mapping;
    order.expected = static_cast<std::int64_t>(slot);
    order.found = -1;
    return order.entry;
  }
  Span<const Astray> astray() override {
    astray_.clear();
    for (u32 i = 0; i < num_orders_; ++i) {
      const EntryOrder& order = orders_[i];
      if (order.found == order.expected) continue;
      astray_.push_back({order.row, order.entry.position, order.expected, order.found});
    }
    return {astray_.data(), static_cast<u32>(astray_.size())};
  }
  /// The end of an entry can lie behind the blocks that its plan has. Blocks that were not read count as unwritten.
  const KvEntry* read(u32 entry, u32 index, u32) override {
    const u64 at = (*starts_)[entry] + index;
    return at < (*starts_)[entry + 1] ? read_.data() + at * block_size_ : unwritten_.data();
  }

  /// To be called before ReferenceModel::adopt(): the blocks that it adopts become a list for a kernel.
  /// @throws std::bad_alloc
  void begin_adoption(u32 count) {
    adopted_.clear();
    adopted_.reserve(count);
  }
  void adopt(u32 block, u32 generation, bool filled) override { adopted_.push_back({block, generation, filled}); }
  const std::vector<Adoption>& adopted() const { return adopted_; }

 private:
  u32 block_size_;
  EntryOrder* orders_ = nullptr;
  u32 num_orders_ = 0;
  const std::vector<u64>* starts_ = nullptr;
  std::vector<KvEntry> read_;
  std::vector<Astray> astray_;
  std::vector<Adoption> adopted_;
  std::vector<KvEntry> unwritten_;  // one block
};

}  // namespace blockstep::cuda
