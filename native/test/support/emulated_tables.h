// The tables of a step on the emulated device, in the simplest way: every word is rewritten. A
// message by value is copied. A message in a slot is read when its turn comes, like on a GPU.
#pragma once

#include <functional>

#include "../../host/device/device_tables.h"
#include "../../base/error.h"
#include "support.h"

namespace blockstep::test {

class EmulatedTables final : public DeviceTables {
 public:
  /// Queues a piece of work on the device. If the call is to fail, the function is called with
  /// false, and the work is not done.
  using Give = std::function<void(std::function<void()>, bool joined)>;
  /// Returns when all queued work is done.
  using Settle = std::function<void()>;

  EmulatedTables(const State& state, const TablesShape& shape, u32 block_size, u32 num_slots, Give give, Settle settle)
      : state_(state), shape_(shape), block_size_(block_size), give_(std::move(give)), settle_(std::move(settle)),
        slot_words_(max_gather_words(shape)), slots_(num_slots * slot_words_), memory_((tables_bytes(shape) + 7) / 8, 0),
        at_(lay_out_tables(shape, memory_.data())), descriptor_(describe_tables(at_, shape, 0, block_size)) {
    std::fill_n(at_.slot_mapping, u64{shape.num_lists()} * shape.max_tokens, -1);
    std::fill_n(at_.input_ids, shape.max_tokens, -1);
  }

  const blockstep_tables& descriptor() const override { return descriptor_; }
  u32* slot(u32 index) override { return slots_.data() + index * slot_words_; }
  const Completion& completion() const override { return completion_; }
  void gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) override {
    EXPECT(carrier == Carrier::kSmall ? count <= kSmallGatherWords : carrier == Carrier::kLarge && count <= kLargeGatherWords,
           "%u words as a parameter of size %u", count, static_cast<u32>(carrier));
    carried[static_cast<u32>(carrier)] += 1;
    give(head, words, count, false);
  }
  /// Gathers after a log that came in the same call.
  void gather_behind(const GatherHead& head, const u32* words, u32 count) { give(head, words, count, true); }
  void gather_slot(const GatherHead& head, u32 index, u32 count) override {
    EXPECT(count <= slot_words_, "%u words in a slot", count);
    carried[static_cast<u32>(Carrier::kSlot)] += 1;
    give_([this, head, index, count] { gather(head, slot(index), count); }, false);
  }
  void read(Table which, void* out) override {
    settle_();
    const blockstep_array& array = array_of(descriptor_, which);
    std::memcpy(out, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(array.data)), bytes_of(array));
  }
  u64 device_bytes() const override { return memory_.size() * 8; }
  u64 pinned_bytes() const override { return slots_.size() * 4; }

  /// Called with the tables of every gather, on the device's thread.
  std::function<void(const void* memory)> on_gather = [](const void*) {};
  u32 carried[3] = {};

 private:
  void give(const GatherHead& head, const u32* words, u32 count, bool joined) {
    give_([this, head, copy = std::vector<u32>(words, words + count)] { gather(head, copy.data(), copy.size()); }, joined);
  }

  void gather(const GatherHead& head, const u32* words, u64 count) {
    const u32 n = head.num_entries;
    const u32* starts = head.uniform ? nullptr : words + u64{2} * n;
    const u32* ids = words + u64{head.uniform ? 2u : 3u} * n;
    EXPECT(ids + head.num_tokens == words + count, "%llu words for %u entries of %u tokens", wide(count), n, head.num_tokens);
    EXPECT(head.last_entries == last_entries_ && head.last_tokens == last_tokens_, "another gather came before");
    std::fill_n(memory_.data(), memory_.size(), 0);
    std::fill_n(at_.slot_mapping, u64{shape_.num_lists()} * shape_.max_tokens, -1);
    std::fill_n(at_.input_ids, shape_.max_tokens, -1);
    std::fill_n(at_.query_start, shape_.max_entries + 1, static_cast<std::int32_t>(head.num_tokens));
    u32 longest = 0;
    for (u32 e = 0; e < n; ++e) {
      const u32 begin = starts ? starts[e] : e * head.uniform;
      const u32 end = e + 1 == n ? head.num_tokens : starts ? starts[e + 1] : begin + head.uniform;
      at_.query_start[e] = static_cast<std::int32_t>(begin);
      at_.num_computed[e] = static_cast<std::int32_t>(words[n + e]);
      at_.seq_lens[e] = static_cast<std::int32_t>(words[n + e] + end - begin);
      for (u32 token = begin; token < end; ++token) at_.input_ids[token] = static_cast<std::int32_t>(ids[token]);
      for (u32 list = 0; list < shape_.num_lists(); ++list) {
        longest = std::max(longest, write_list(list, e, words[e] * shape_.num_lists() + list, words[n + e], begin, end));
      }
    }
    const u32 widest = std::max({longest, last_longest_, 1u});
    EXPECT(head.segments == (widest + kSegmentBlocks - 1) / kSegmentBlocks, "%u segments for %u blocks", head.segments, widest);
    last_entries_ = n;
    last_tokens_ = head.num_tokens;
    last_longest_ = longest;
    on_gather(memory_.data());
    completion_.word.store(completion_word(head.number, 0), std::memory_order_release);
  }

  /// Writes an entry's part of a block list, and returns the length of its row.
  u32 write_list(u32 list, u32 entry, u32 index, u32 computed, u32 begin, u32 end) {
    const Row& row = state_.rows[index];
    const u32* blocks = blocks_of(state_, index);
    const GroupTables at = lay_out_group(shape_, at_, list);
    const u32 size = shape_.num_groups == 0 ? block_size_ : shape_.groups[list].block_size;
    EXPECT(row.in_use, "row %u of entry %u is not in use", index, entry);
    EXPECT(row.num_blocks <= shape_.blocks_per_row(list), "row %u has %u blocks", index, row.num_blocks);
    std::copy_n(blocks, row.num_blocks, at.block_table + u64{entry} * shape_.blocks_per_row(list));
    for (u32 token = begin; token < end; ++token) {
      const u32 position = computed + token - begin;
      EXPECT(position / size < row.num_blocks, "position %u of entry %u has no block", position, entry);
      const u32 block = blocks[position / size];
      EXPECT(block != kNullBlock || (shape_.num_groups != 0 && shape_.groups[list].moves), "position %u of entry %u is nowhere",
             position, entry);
      at.slot_mapping[token] = block == kNullBlock ? -1 : std::int64_t{block} * size + position % size;
    }
    return row.num_blocks;
  }

  const State& state_;
  const TablesShape shape_;
  const u32 block_size_;
  Give give_;
  Settle settle_;
  u64 slot_words_;
  std::vector<u32> slots_;
  std::vector<u64> memory_;
  Tables at_;
  blockstep_tables descriptor_;
  Completion completion_{};
  u32 last_entries_ = 0;
  u32 last_tokens_ = 0;
  u32 last_longest_ = 0;
};

}  // namespace blockstep::test
