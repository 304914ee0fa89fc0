// The gather's kernels on threads. gather.cu is compiled as C++ over gpu_shim, with one thread for
// each thread of a block. All blocks of a grid run at once. The tables are compared with the host's
// as soon as the completion is there, before the threads are joined. The thread sanitizer therefore
// sees every write that is not ordered before the completion.
#if !defined(BLOCKSTEP_BLOCK_THREADS)
#define BLOCKSTEP_BLOCK_THREADS 64
#endif
#include "../../cuda/kernels/gather.cu"

#include "../support/groups_life.h"
#include "../support/tables_life.h"

using namespace blockstep;
using namespace blockstep::test;
namespace gpu_code = blockstep::cuda;

/// Tables whose arrays are separate allocations, filled by the kernels.
class KernelTables final : public DeviceTables {
 public:
  KernelTables(const State& state, const TablesShape& shape, u32 block_size, u32 num_slots)
      : input_ids_(shape.max_tokens, -1), query_start_(shape.max_entries + 1), seq_lens_(shape.max_entries),
        num_computed_(shape.max_entries), grouped_(shape.num_groups != 0), staging_((max_gather_words(shape) + 3) / 4), slots_(num_slots, std::vector<uint4>(staging_.size())) {
    GroupTables tables[kMaxGroups];
    for (u32 list = 0; list < shape.num_lists(); ++list) {
      slot_mappings_[list].assign(shape.max_tokens, -1);
      block_tables_[list].assign(u64{shape.max_entries} * shape.blocks_per_row(list), 0);
      contents_[list].assign(2 * shape.max_entries, {~u64{0}, kNone, kNone});
      tables[list] = {slot_mappings_[list].data(), block_tables_[list].data()};
      const GroupShape& group = shape.groups[list];
      groups_[list] = {tables[list], contents_[list].data(), group.block_size, group.max_blocks_per_row, group.moves, 0};
    }
    site_.at = {tables[0].slot_mapping, input_ids_.data(), query_start_.data(), seq_lens_.data(), num_computed_.data(),
                tables[0].block_table};
    if (grouped_) site_.groups = groups_;
    else site_.contents = contents_[0].data();
    site_.rows = state.rows;
    site_.row_blocks = state.row_blocks;
    site_.counts = &counts_;
    site_.completion = &completion_;
    site_.max_entries = shape.max_entries;
    site_.max_blocks_per_row = state.config.max_blocks_per_row;
    site_.block_size = block_size;
    site_.num_groups = shape.num_groups;
    descriptor_ = describe_tables(site_.at, tables, shape, 0, block_size);
  }

  const blockstep_tables& descriptor() const override { return descriptor_; }
  u32* slot(u32 index) override { return &slots_[index].data()->x; }
  const Completion& completion() const override { return completion_; }
  void gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) override {
    carrier == Carrier::kSmall ? by_value<kSmallGatherWords>(head, words, count)
                               : by_value<kLargeGatherWords>(head, words, count);
    carried[static_cast<u32>(carrier)] += 1;
  }
  void gather_slot(const GatherHead& head, u32 index, u32 count) override {
    const u32* words = slot(index);
    u32* staging = &staging_.data()->x;
    launch((count + gpu_code::kFetchWords - 1) / gpu_code::kFetchWords,
           [=] { gpu_code::fetch_message(staging, words, count); });
    members_.clear();
    EXPECT(std::equal(words, words + count, staging), "another message was fetched");
    launch(1 + head.number % 3, [=, this] {
      grouped_ ? gpu_code::gather_staged<true>(site_, head, staging) : gpu_code::gather_staged<false>(site_, head, staging);
    });
    wait(head.number);
    carried[2] += 1;
  }
  void gather_behind(const gpu_code::Site& site, Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) {
    const bool small = joint_message_at(log_words) + count <= kSmallJointWords;
    small ? jointly<kSmallJointWords>(site, job, log, log_words, head, words, count)
          : jointly<kLargeJointWords>(site, job, log, log_words, head, words, count);
    joined[small ? 0 : 1] += 1;
  }
  void read(Table which, void* out) override {
    // Tables are read in stream order, because the completion of a gather does not cover them.
    join();
    const blockstep_array& array = array_of(descriptor_, which);
    std::memcpy(out, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(array.data)), bytes_of(array));
  }
  u64 device_bytes() const override { return 0; }
  u64 pinned_bytes() const override { return 0; }
  /// Waits until the kernels have ended completely, like a stream before its next kernel.
  void join() { members_.clear(); }

  u32 carried[3] = {};
  u32 joined[2] = {};

 private:
  template <u32 Words>
  void jointly(const gpu_code::Site& site, Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) {
    const auto letter = std::make_shared<gpu_code::JointLetter<Words>>();
    EXPECT(joint_message_at(log_words) + count <= Words, "%u and %u words in a letter of %u", log_words, count, Words);
    letter->site = site;
    letter->number = job.number;
    letter->slot = job.slot;
    letter->log_words = log_words;
    letter->message_at = joint_message_at(log_words);
    letter->gather = site_;
    letter->head = head;
    std::copy_n(log, log_words, letter->words);
    std::copy_n(words, count, letter->words + letter->message_at);
    launch(1 + head.number % 3, [=, this] {
      grouped_ ? gpu_code::apply_and_gather<Words, true>(*letter) : gpu_code::apply_and_gather<Words, false>(*letter);
    });
    wait(head.number);
  }

  template <u32 Words>
  void by_value(const GatherHead& head, const u32* words, u32 count) {
    EXPECT(count <= Words, "%u words in a letter of %u", count, Words);
    const auto letter = std::make_shared<gpu_code::GatherLetter<Words>>();
    letter->head = head;
    std::copy_n(words, count, letter->words);
    launch(1 + head.number % 3, [=, this] {
      grouped_ ? gpu_code::gather_value<Words, true>(site_, *letter) : gpu_code::gather_value<Words, false>(site_, *letter);
    });
    wait(head.number);
  }

  /// All threads of all blocks at once. This is possible because the kernels share only device
  /// memory.
  template <class Kernel>
  void launch(u32 blocks, const Kernel& kernel) {
    EXPECT(members_.empty(), "the last launch is still running");
    blocks_.clear();
    for (u32 index = 0; index < blocks; ++index) {
      blocks_.push_back(std::make_unique<gpu_shim::Block>(gpu_code::kThreads));
      for (u32 rank = 0; rank < gpu_code::kThreads; ++rank) {
        members_.emplace_back([=, block = blocks_.back().get()] {
          gpu_shim::block = block;
          threadIdx = {rank};
          blockIdx = {index};
          gridDim = {blocks};
          kernel();
        });
      }
    }
  }

  void wait(u32 number) {
    while (completion_.word.load(std::memory_order_acquire) != completion_word(number, 0)) std::this_thread::yield();
  }

  std::vector<std::int32_t> input_ids_, query_start_, seq_lens_, num_computed_;
  std::vector<std::int64_t> slot_mappings_[kMaxGroups];
  std::vector<std::int32_t> block_tables_[kMaxGroups];
  std::vector<RowContent> contents_[kMaxGroups];
  gpu_code::GroupSite groups_[kMaxGroups] = {};
  const bool grouped_;
  std::vector<uint4> staging_;
  std::vector<std::vector<uint4>> slots_;
  gpu_code::GatherCounts counts_{};
  Completion completion_{};
  gpu_code::GatherSite site_{};
  blockstep_tables descriptor_;
  std::vector<std::unique_ptr<gpu_shim::Block>> blocks_;
  std::vector<std::jthread> members_;  // last, because they use all other members
};

/// A device that applies a log at once, or by the kernel of the following gather.
class PromptDevice final : public Device {
 public:
  PromptDevice(const Config& pool, u32 max_logs, bool joins)
      : machine_(pool), joins_(joins), slots_(max_logs, std::vector<u32>(slot_words(pool))), completions_(max_logs) {}

  u32* slot(u32 index) override { return slots_[index].data(); }
  const Completion& completion(u32 slot) const override { return completions_[slot]; }
  const Completion& digest_completion() const override { return completions_[0]; }
  void apply_value(Job job, Carrier, const u32* words, u32 count) override {
    if (tables) tables->join();
    machine_.apply({std::vector<u32>(words, words + count)});
    for (u32 which : {0u, 1u}) completions_[job.slot].half[which] = half_word(job.number, machine_.state.rolling_digest, which);
    completions_[job.slot].word = completion_word(job.number, machine_.results.fault);
  }
  void apply_slot(Job job, u32 count) override { apply_value(job, Carrier::kSlot, slot(job.slot), count); }
  void start_digest(u32) override {}
  // The device never decides.
  u32* batch() override { return nullptr; }
  const u32* decision() const override { return nullptr; }
  const Completion& decision_completion() const override { return completions_[0]; }
  void decide_value(u32, Carrier, const u32*, u32) override { EXPECT(false, "a batch for a device that does not decide"); }
  void decide_slot(u32, u32) override { EXPECT(false, "a batch for a device that does not decide"); }
  bool is_capturing(u64) override { return false; }
  void follow(u64) override {}
  void lead(u64) override {}
  DeviceTables& make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) override {
    tables = std::make_unique<KernelTables>(machine_.state, shape, block_size, num_slots);
    return *tables;
  }
  bool joins() const override { return joins_; }
  void apply_and_gather(Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) override {
    tables->join();
    machine_.ids.resize(machine_.state.config.num_blocks);
    home_ = {};
    home_.state = machine_.state;
    home_.ids = machine_.ids.data();
    home_.completions = completions_.data();
    tables->gather_behind(gpu_code::site_of(machine_.state, &home_), job, log, log_words, head, words, count);
    machine_.state = home_.state;  // the arrays are the same
  }
  void check() override {}
  u64 device_bytes() const override { return 0; }
  u64 pinned_bytes() const override { return 0; }

 private:
  Machine machine_;
  const bool joins_;
  gpu_code::Home home_{};
  std::vector<std::vector<u32>> slots_;
  std::vector<Completion> completions_;

 public:
  std::unique_ptr<KernelTables> tables;
};

/// Number of launches of each kernel: gathers by their carrier, and gathers with a log by the size
/// of their parameter.
struct Tally {
  u32 carried[3] = {};
  u32 joined[2] = {};
};

/// A random life whose logs come before the gathers, or with them.
template <class Life, class Shape>
static void run_life(const Shape& shape, u64 seed, u64 steps, bool joins, Tally& tally) {
  PromptDevice* device = nullptr;
  Life life(shape, seed, [&](const Config& pool, u32 max_logs) {
    auto made = std::make_unique<PromptDevice>(pool, max_logs, joins);
    device = made.get();
    return made;
  });
  for (u64 step = 0; step < steps; ++step) {
    device->tables->join();
    const u32 frame = life.step();
    for (u32 i = 0; i < num_arrays(device->tables->descriptor()); ++i) {
      const std::vector<u8> expected = life.array(frame, static_cast<Table>(i));
      std::vector<u8> found(expected.size());
      life.core().read_device_table(static_cast<Table>(i), found.data());
      EXPECT(found == expected, "%s, seed %llu, step %llu: table %u", shape.name, wide(seed), wide(step), i);
    }
  }
  for (u32 i = 0; i < 3; ++i) tally.carried[i] += device->tables->carried[i];
  for (u32 i = 0; i < 2; ++i) tally.joined[i] += device->tables->joined[i];
}

template <class Life, class Shape>
static void run(const Shape& shape, u64 seed, u64 steps, Tally& tally) {
  for (const bool joins : {false, true}) run_life<Life>(shape, seed, steps, joins, tally);
}

/// The number of thread blocks follows the work, up to the maximum. At least one block reports the
/// completion.
static void test_grid() {
  constexpr u32 kThreads = gpu_code::kThreads;
  const auto blocks = [](u32 entries, u32 tokens, u32 segments, u32 max_entries) {
    return gpu_code::gather_blocks({1, entries, tokens, 0, 0, 0, segments}, max_entries);
  };
  EXPECT(blocks(0, 0, 1, 1) == 1, "%u for nothing", blocks(0, 0, 1, 1));
  EXPECT(blocks(0, 0, 1, kThreads) == 2, "%u for a thread too much", blocks(0, 0, 1, kThreads));
  EXPECT(blocks(1, 3 * kThreads, 1, 1) == 3, "%u for three blocks of tokens", blocks(1, 3 * kThreads, 1, 1));
  EXPECT(blocks(4, 4, kThreads / 32, 4) == 4, "%u for four rows", blocks(4, 4, kThreads / 32, 4));
  EXPECT(gpu_code::gather_blocks({1, 0, 0, 4, 4, 0, kThreads / 32}, 4) == 4, "the last gather's rows are forgotten");
  EXPECT(gpu_code::gather_blocks({1, 0, 0, 1, 2 * kThreads, 0, 1}, 4) == 2, "the last gather's tokens are forgotten");
  EXPECT(gpu_code::gather_blocks({1, 4, 4, 0, 0, 4, 1}, 4, 3) == (3 * 4 * 32 + kThreads - 1) / kThreads, "groups are forgotten");
  EXPECT(blocks(1u << 20, 0x7ffffffe, 2048, 1u << 20) == gpu_code::kMaxGatherBlocks, "more than there may be");
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 100);
  Tally tally;
  test_grid();
  // Long rows, and many rows, are slow, so they get few steps. Seven steps of each life use all
  // carriers.
  const u64 few = std::min<u64>(steps, 20);
  run<TablesLife>(kOne, 1, few, tally);
  run<TablesLife>(kShortRows, 2, few + steps, tally);
  run<TablesLife>(kLongRows, 3, few + steps / 10, tally);
  run<TablesLife>(kManyRows, 4, std::min<u64>(few, 10) + steps / 50, tally);
  for (u64 seed = 5; seed < (steps < 20 ? 6 : 8); ++seed) run<GroupsLife>(kShortGroups, seed, steps, tally);
  run<GroupsLife>(kLongGroups, 8, few + steps / 10, tally);
  const u32(&carried)[3] = tally.carried;
  EXPECT(carried[0] && carried[1] && carried[2], "%u small, %u large, %u in slots", carried[0], carried[1], carried[2]);
  EXPECT(tally.joined[0] && tally.joined[1], "%u small with a log, %u large", tally.joined[0], tally.joined[1]);
  std::printf("gather on threads: %u small, %u large, %u in slots, %u with their logs, all as the host's\n", carried[0], carried[1],
              carried[2], tally.joined[0] + tally.joined[1]);
  return 0;
}
