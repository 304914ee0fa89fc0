// The kernels of the reference executor, each by itself, on threads: what is written where, what is read, and that nothing
// else is touched, whatever the tables say.
#if !defined(BLOCKSTEP_BLOCK_THREADS)
#define BLOCKSTEP_BLOCK_THREADS 64
#endif
#include "../../cuda/reference/reference.cu"

#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;
namespace gpu_code = blockstep::cuda;
using gpu_code::EntryOrder;
using gpu_code::kThreads;

constexpr u32 kBlocks = 9;
constexpr u32 kBlockSize = 4;
constexpr u32 kRow = 6;

/// Memory and tables of two entries, each array an allocation of its own.
struct Site {
  Site() {
    site.at.slot_mapping = mapping.data();
    site.at.seq_lens = lengths.data();
    site.at.block_table = rows.data();
    site.max_blocks_per_row = kRow;
    site.block_size = kBlockSize;
    site.num_blocks = kBlocks;
    site.entries = entries.data();
    for (u32 slot = 0; slot < kBlocks * kBlockSize; ++slot) entries[slot] = {slot, 1, 0, slot, 0, 0};
  }
  std::vector<std::int64_t> mapping = std::vector<std::int64_t>(200, -1);
  std::vector<std::int32_t> lengths = {0, 0};
  std::vector<std::int32_t> rows = std::vector<std::int32_t>(2 * kRow, 0);
  std::vector<KvEntry> entries = std::vector<KvEntry>(kBlocks * kBlockSize);
  gpu_code::EntrySite site{};
};

static bool same(const KvEntry& a, const KvEntry& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// More orders than a block has threads: half by the mapping, half by the block table; every tenth goes nowhere.
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
  const u32 count = 147;  // those behind are not for this step
  for (u32 i = count; i < orders.size(); ++i) host.mapping[i] = kBlockSize;
  gpu_shim::launch(3, kThreads, [&] { gpu_code::write_entries(host.site, orders.data(), &count); });
  for (u32 i = 0; i < count; ++i) EXPECT(orders[i].found == slots[i], "order %u: slot %lld", i, static_cast<long long>(orders[i].found));
  for (u32 i = count; i < orders.size(); ++i) EXPECT(orders[i].found == -2, "order %u was carried out", i);
  for (u32 slot = 0; slot < expected.size(); ++slot) EXPECT(same(host.entries[slot], expected[slot]), "slot %u", slot);
}

/// Two stretches of a window: blocks that there are and are not, up to the end of each sequence and no further.
static void test_read() {
  Site host;
  const std::int32_t second[kRow] = {5, 0, 8, -3, 9, 2};
  std::copy(second, second + kRow, host.rows.begin() + kRow);
  host.rows[2] = 7;
  for (const std::int32_t length : {0, 1, 4, 11, 23, 24, -5, 1 << 30}) {
    host.lengths = {10, length};
    const gpu_code::ReadStretch stretches[] = {{1, 0, kRow, 1}, {0, 2, 1, 0}};
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
  test_read();
  test_adopt();
  std::printf("entries are written, read and adopted where the tables say");
  return 0;
}
