// StagedMemory: the KV memory of a GPU for the reference model, through pinned memory and kernels.
#pragma once

#include <vector>

#include "../../reference/memory/entry_memory.h"
#include "reference_kernels.h"

namespace blockstep::cuda {

/// An entry that is placed, or saved, becomes an order for a kernel. Entries are read from a copy
/// of a kernel's reads: every row of every group without states, from its first block on. Steps use
/// the memory one after another.
class StagedMemory final : public EntryMemory {
 public:
  StagedMemory(std::shared_ptr<BlockArena> blocks, u32 block_size)
      : EntryMemory(std::move(blocks)), block_size_(block_size), unwritten_(block_size) {}

  /// Prepares a step. Its entries will be placed in `orders`, its states saved in `states`. Both
  /// have room for all of them. Row r belongs to entry e of group g at r = g * num_entries + e. Its
  /// first starts[r + 1] - starts[r] blocks will be read. The arguments must live until the next
  /// step is prepared.
  /// @throws std::bad_alloc
  void prepare(EntryOrder* orders, StateOrder* states, const std::vector<u64>& starts, u32 num_entries) {
    orders_ = orders;
    states_ = states;
    num_orders_ = num_checked_ = num_states_ = 0;
    starts_ = &starts;
    num_entries_ = num_entries;
    read_.clear();
    read_.reserve(starts.back() * block_size_);
  }
  /// Number of entries placed and states saved so far.
  u32 num_orders() const { return num_orders_; }
  u32 num_states() const { return num_states_; }
  /// Copies the next blocks that were read out of the window.
  void take(const KvEntry* window, u32 num_blocks) {
    read_.insert(read_.end(), window, window + u64{num_blocks} * block_size_);
  }

  void save(u32 group, u32 entry, u32 index, u32) override { states_[num_states_++] = {{}, group, entry, index}; }
  const KvEntry* saved(u32 n) override { return &states_[n].saved; }
  void place(const SlotSource& source, u64, u32, const KvEntry& entry) override {
    orders_[num_orders_++] = {entry, source.entry, source.mapping, source.slot, -1};
  }
  Span<const Astray> astray() override {
    astray_.clear();
    for (; num_checked_ < num_orders_; ++num_checked_) {
      const EntryOrder& order = orders_[num_checked_];
      if (order.found == order.expected) continue;
      astray_.push_back({order.row, order.entry.group, order.entry.position, order.expected, order.found});
    }
    return {astray_.data(), static_cast<u32>(astray_.size())};
  }
  /// The end of an entry can lie behind the blocks of its plan. Blocks that were not read count as
  /// unwritten.
  const KvEntry* read(u32 group, u32 entry, u32 index, u32) override {
    const u64 row = u64{group} * num_entries_ + entry;
    const u64 at = (*starts_)[row] + index;
    return at < (*starts_)[row + 1] ? read_.data() + at * block_size_ : unwritten_.data();
  }

  /// Call it before ReferenceModel::adopt() or zero(): the blocks that these adopt or wipe become a
  /// list for a kernel.
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
  StateOrder* states_ = nullptr;
  u32 num_orders_ = 0;
  u32 num_checked_ = 0;  // orders that astray() has checked
  u32 num_states_ = 0;
  const std::vector<u64>* starts_ = nullptr;
  u32 num_entries_ = 0;
  std::vector<KvEntry> read_;
  std::vector<Astray> astray_;
  std::vector<Adoption> adopted_;
  std::vector<KvEntry> unwritten_;  // one block
};

}  // namespace blockstep::cuda
