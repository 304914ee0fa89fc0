// Each kernel of the reference executor alone, on threads: which entries are written and read, and
// that no other memory is accessed, for any tables.
#if !defined(BLOCKSTEP_BLOCK_THREADS)
#define BLOCKSTEP_BLOCK_THREADS 64
#endif
#include "../../cuda/reference/reference.cu"

#include <array>

#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;
namespace gpu_code = blockstep::cuda;
using gpu_code::EntryOrder;
using gpu_code::kThreads;

constexpr u32 kBlocks = 9;
constexpr u32 kBlockSize = 4;
constexpr u32 kRow = 6;
constexpr u32 kSmall = 3;  // tokens of a block, in the group of smaller blocks
constexpr u32 kSmallRow = 4;
constexpr u32 kPerState = 10;  // tokens of a block, in the group of states
constexpr u32 kStateRow = 3;

/// Memory and tables of two entries, each array in a separate allocation. The blocks of the first
/// group are full. Beside it there are a group of states, and a group of smaller blocks whose last
/// block is read to its end.
struct Site {
  Site() {
    site.seq_lens = lengths.data();
    site.block_size = kBlockSize;
    site.num_blocks = kBlocks;
    site.entries = entries.data();
    site.groups[0] = {{mapping.data(), rows.data()}, kRow, kBlockSize, false, false};
    site.groups[1] = {{small_mapping.data(), small_rows.data()}, kSmallRow, kSmall, false, true};
    site.groups[2] = {{nullptr, state_rows.data()}, kStateRow, kPerState, true, false};
    for (u32 slot = 0; slot < kBlocks * kBlockSize; ++slot) entries[slot] = {slot, 1, 0, slot, 0, 0};
  }
  std::vector<std::int64_t> mapping = std::vector<std::int64_t>(200, -1);
  std::vector<std::int32_t> lengths = {0, 0};
  std::vector<std::int32_t> rows = std::vector<std::int32_t>(2 * kRow, 0);
  std::vector<std::int64_t> small_mapping = std::vector<std::int64_t>(20, -1);
  std::vector<std::int32_t> small_rows = std::vector<std::int32_t>(2 * kSmallRow, 0);
  std::vector<std::int32_t> state_rows = std::vector<std::int32_t>(2 * kStateRow, 0);
  std::vector<KvEntry> entries = std::vector<KvEntry>(kBlocks * kBlockSize);
  gpu_code::EntrySite site{};
};

static bool same(const KvEntry& a, const KvEntry& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// More orders than a block has threads: half by the mapping, half by the block table. Every tenth
/// order has no slot.
static void test_write() {
  Site host;
  Random random(1);
  for (u32 i = 0; i < kRow; ++i) host.rows[kRow + i] = static_cast<std::int32_t>(1 + i);
  const std::int64_t nowhere[] = {-1, 0, 3, kBlocks * kBlockSize, std::int64_t{1} << 40, -(std::int64_t{1} << 40)};
  std::vector<EntryOrder> orders(150);
  std::vector<KvEntry> expected = host.entries;
  std::vector<std::int64_t> slots(orders.size());
  u32 next = kBlockSize * 7;  // blocks 7 and 8 for the mapping, 1 to 6 for the table
  for (u32 i = 0; i < orders.size(); ++i) {
    EntryOrder& order = orders[i];
    order = {{random.next(), 77, static_cast<std::int32_t>(i), 0, 9, 0}, 1, i, -2, -2};
    if (i % 10 == 3) {
      slots[i] = host.mapping[i] = nowhere[random.below(6)];
    } else if (i < 24) {  // position i of the second row
      order.mapping = kNone;
      order.entry.position = i;
      slots[i] = kBlockSize + i;
    } else {
      slots[i] = host.mapping[i] = next < kBlocks * kBlockSize ? next++ : -1;
    }
    if (slots[i] >= kBlockSize && slots[i] < kBlocks * kBlockSize) expected[static_cast<u32>(slots[i])] = order.entry;
  }
  const gpu_code::OrderRange range{2, 147};  // the other orders do not belong to this launch
  for (const u32 i : {0u, 1u}) expected[static_cast<u32>(slots[i])] = host.entries[static_cast<u32>(slots[i])];
  for (u32 i = range.end; i < orders.size(); ++i) host.mapping[i] = kBlockSize;
  gpu_shim::launch(3, kThreads, [&] { gpu_code::write_entries(host.site, orders.data(), &range); });
  for (u32 i = range.first; i < range.end; ++i) EXPECT(orders[i].found == slots[i], "order %u: slot %lld", i, static_cast<long long>(orders[i].found));
  for (u32 i = 0; i < orders.size(); ++i) {
    EXPECT((i >= range.first && i < range.end) || orders[i].found == -2, "order %u was carried out", i);
  }
  for (u32 slot = 0; slot < expected.size(); ++slot) EXPECT(same(host.entries[slot], expected[slot]), "slot %u", slot);
}

/// Each entry uses the tables of its own group, and a state fills its block.
static void test_write_groups() {
  Site host;
  std::vector<KvEntry> expected = host.entries;
  std::vector<EntryOrder> orders;
  std::vector<std::int64_t> slots;
  const auto order = [&](u32 group, u32 position, u32 mapping, std::int64_t slot) {
    orders.push_back({{100 + orders.size(), 77, 5, position, 9, group}, 1, mapping, -2, -2});
    slots.push_back(slot);
    return orders.back().entry;
  };
  std::copy_n(std::array{0, 2, 4}.begin(), 3, host.small_rows.begin() + kSmallRow);
  std::copy_n(std::array{6, 0, 7}.begin(), 3, host.state_rows.begin() + kStateRow);
  host.small_mapping[3] = kBlocks * kSmall - 1;  // the last slot of the group is not the last entry of the memory
  host.small_mapping[4] = kBlocks * kSmall;
  expected[2 * kBlockSize + 2] = order(1, 5, kNone, 2 * kSmall + 2);
  expected[4 * kBlockSize] = order(1, 6, kNone, 4 * kSmall);
  expected[8 * kBlockSize + kSmall - 1] = order(1, 0, 3, kBlocks * kSmall - 1);
  order(1, 0, 4, kBlocks * kSmall);
  const KvEntry first = order(2, 4, kNone, 6 * kPerState + 4);
  order(2, 13, kNone, 3);
  const KvEntry last = order(2, 29, kNone, 7 * kPerState + 9);
  for (u32 i = 0; i < kBlockSize; ++i) {
    expected[6 * kBlockSize + i] = first;
    expected[7 * kBlockSize + i] = last;
  }
  const gpu_code::OrderRange range{0, static_cast<u32>(orders.size())};
  gpu_shim::launch(1, kThreads, [&] { gpu_code::write_entries(host.site, orders.data(), &range); });
  for (u32 i = 0; i < orders.size(); ++i) EXPECT(orders[i].found == slots[i], "order %u: slot %lld", i, static_cast<long long>(orders[i].found));
  for (u32 slot = 0; slot < expected.size(); ++slot) EXPECT(same(host.entries[slot], expected[slot]), "slot %u", slot);
}

/// The first entries of blocks, by the tables of each group. Missing entries read as unwritten.
static void test_save() {
  Site host;
  // 9 is no block.
  for (u32 i = 0; i < kStateRow; ++i) host.state_rows[kStateRow + i] = static_cast<std::int32_t>(7 + i);
  host.small_rows[1] = 3;
  std::vector<gpu_code::StateOrder> orders;
  for (u32 i = 0; i < kStateRow; ++i) orders.push_back({{9, 9, 9, 9, 9, 9}, 2, 1, i});
  orders.push_back({{9, 9, 9, 9, 9, 9}, 2, 0, 0});
  orders.push_back({{9, 9, 9, 9, 9, 9}, 1, 0, 1});
  orders.push_back({{9, 9, 9, 9, 9, 9}, 1, 0, 1});  // not an order of this step
  const u32 blocks[] = {7, 8, 0, 0, 3};
  const u32 count = 5;
  gpu_shim::launch(1, kThreads, [&] { gpu_code::save_states(host.site, orders.data(), &count); });
  for (u32 i = 0; i < count; ++i) {
    const KvEntry expected = blocks[i] == 0 ? KvEntry{} : host.entries[blocks[i] * kBlockSize];
    EXPECT(same(orders[i].saved, expected), "order %u", i);
  }
  EXPECT(orders[count].saved.hash == 9, "an order that is none");
}

/// Two stretches of a window: existing and missing blocks, up to the end of each sequence and no
/// further.
static void test_read() {
  Site host;
  const std::int32_t second[kRow] = {5, 0, 8, -3, 9, 2};
  std::copy(second, second + kRow, host.rows.begin() + kRow);
  host.rows[2] = 7;
  for (const std::int32_t length : {0, 1, 4, 11, 23, 24, -5, 1 << 30}) {
    host.lengths = {10, length};
    const gpu_code::ReadStretch stretches[] = {{0, 1, 0, kRow, 1}, {0, 0, 2, 1, 0}};
    std::vector<KvEntry> window((1 + kRow) * kBlockSize, KvEntry{9, 9, 9, 9, 9, 9});
    gpu_shim::launch(2, kThreads, [&] { gpu_code::read_entries(host.site, stretches, window.data()); });
    for (u32 i = 0; i < window.size(); ++i) {
      const u32 row = i < kBlockSize ? 0 : 1;
      const u32 position = row ? i - kBlockSize : 2 * kBlockSize + i;
      const std::int32_t block = host.rows[row * kRow + position / kBlockSize];
      const bool there = static_cast<std::int32_t>(position) < host.lengths[row] && block >= 1 && block < static_cast<std::int32_t>(kBlocks);
      const KvEntry expected = there ? host.entries[static_cast<u32>(block) * kBlockSize + position % kBlockSize] : KvEntry{};
      EXPECT(same(window[i], expected), "length %d: row %u, position %u", length, row, position);
    }
  }
}

/// Smaller blocks have the same layout in the window as in memory. The last block is read to its
/// end.
static void test_read_group() {
  Site host;
  const std::int32_t second[kSmallRow] = {5, 0, 8, 2};
  std::copy(second, second + kSmallRow, host.small_rows.begin() + kSmallRow);
  for (const std::int32_t length : {0, 3, 4, 7, 9, 10, 12, 40}) {
    host.lengths = {1, length};
    const gpu_code::ReadStretch stretch{1, 1, 1, kSmallRow - 1, 1};
    std::vector<KvEntry> window(kSmallRow * kBlockSize, KvEntry{9, 9, 9, 9, 9, 9});
    gpu_shim::launch(1, kThreads, [&] { gpu_code::read_entries(host.site, &stretch, window.data()); });
    for (u32 i = 0; i < kBlockSize; ++i) EXPECT(window[i].hash == 9, "in front of the stretch");
    for (u32 i = kBlockSize; i < window.size(); ++i) {
      const u32 index = i / kBlockSize;
      const u32 offset = i % kBlockSize;
      const bool there = offset < kSmall && static_cast<std::int32_t>(index * kSmall) < length && second[index] != 0;
      const KvEntry expected = there ? host.entries[static_cast<u32>(second[index]) * kBlockSize + offset] : KvEntry{};
      EXPECT(same(window[i], expected), "length %d: entry %u of place %u", length, offset, index);
    }
  }
}

static void test_adopt() {
  Site host;
  std::vector<KvEntry> expected = host.entries;
  gpu_code::AdoptionList all{};
  all.list[0] = {3, 8, 1};
  all.list[1] = {8, 5, 0};
  for (u32 i = 0; i < kBlockSize; ++i) {
    expected[3 * kBlockSize + i].generation = 8;
    expected[8 * kBlockSize + i] = {};
  }
  gpu_shim::launch(2, kThreads, [&] { gpu_code::adopt_blocks(host.entries.data(), kBlockSize, all); });
  for (u32 slot = 0; slot < expected.size(); ++slot) EXPECT(same(host.entries[slot], expected[slot]), "slot %u", slot);
}

int main() {
  test_write();
  test_write_groups();
  test_save();
  test_read();
  test_read_group();
  test_adopt();
  std::printf("entries are saved, written, read and adopted where the tables say");
  return 0;
}
