// The state itself: its memory, its limits, the coverage of its digests, and that verify() finds
// every damage.
#include <fstream>
#include <functional>
#include <map>

#include "../../base/memory.h"
#include "../workload/workload.h"

using namespace blockstep;
using namespace blockstep::test;

static void test_layout() {
  for (const Config& config : {Config{2, 1, 1, 0}, Config{1000, 33, 7, kForceBits + 3}, Config{4097, 5, 129, 0}}) {
    const u64 bytes = state_bytes(config);
    void* memory = std::aligned_alloc(64, static_cast<std::size_t>(bytes));
    EXPECT(memory != nullptr && bytes % 64 == 0, "%llu bytes", wide(bytes));
    std::memset(memory, 0, static_cast<std::size_t>(bytes));
    State state;
    bind_state(state, config, memory);
    const auto offset = [&](const void* array) {
      return static_cast<u64>(static_cast<const u8*>(array) - static_cast<const u8*>(memory));
    };
    const std::map<u64, u64> arrays{
        {offset(state.blocks), u64{config.num_blocks} * sizeof(Block)},
        {offset(state.ring), u64{ring_places(config)} * 4},
        {offset(state.live), ring_places(config) / 8},
        {offset(state.buckets), u64{num_buckets(config)} * 4},
        {offset(state.rows), u64{config.num_rows} * sizeof(Row)},
        {offset(state.grants), u64{config.num_rows} * sizeof(Grant)},
        {offset(state.row_blocks), u64{config.num_rows} * config.max_blocks_per_row * 4},
    };
    EXPECT(arrays.size() == 7, "two arrays begin at one place");
    u64 end = 0;
    for (const auto& [begin, length] : arrays) {
      EXPECT(begin % 64 == 0 && begin >= end, "an array begins at %llu", wide(begin));
      end = begin + length;
    }
    EXPECT(end <= bytes, "the arrays end at %llu", wide(end));
    init_state(state);
    EXPECT(verify(state) == nullptr, "%s", verify(state));
    const std::vector<u32> queue = queue_of(state);
    EXPECT(queue.size() == config.num_blocks - 1 && queue.front() == 1 && std::is_sorted(queue.begin(), queue.end()),
           "the first queue is not 1, 2, 3, ...");
    std::free(memory);
  }
}

/// Whether Linux was asked for huge pages under an address: the flag `hg` of its mapping.
static bool has_huge_pages(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin, end;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

/// Blocks, queue and buckets of a large pool get huge pages. Lists of rows never do, because most
/// of them are never written.
static void test_huge_pages() {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) return;
  OwnedState owned({200'000, 64, 1 << 18, 0});
  const State& state = owned.state;
  const u32 middle = state.bucket_mask / 2;
  EXPECT(has_huge_pages(&state.blocks[100'000]) && has_huge_pages(&state.ring[state.ring_mask / 2]), "blocks, ring");
  EXPECT(has_huge_pages(&state.buckets[middle]), "buckets");
  EXPECT(!has_huge_pages(state.row_blocks + (u64{32} << 18)), "lists of rows");
  EXPECT(verify(state) == nullptr, "%s", verify(state));
}

static void test_limits() {
  EXPECT(valid({2, 1, 1, 0}), "the smallest");
  EXPECT(valid({kMaxBlocks, kMaxRows, kMaxBlocksPerRow, 0}), "the largest");
  for (const Config& config :
       {Config{1, 1, 1, 0}, Config{kMaxBlocks + 1, 1, 1, 0}, Config{2, 0, 1, 0}, Config{2, kMaxRows + 1, 1, 0},
        Config{2, 1, 0, 0}, Config{2, 1, kMaxBlocksPerRow + 1, 0}, Config{2, 1, 1, 1}, Config{2, 1, 1, kForceBits - 1},
        Config{2, 1, 1, kForceBits + 25}}) {
    EXPECT(!valid(config), "%u blocks, %u rows of %u, %u bits", config.num_blocks, config.num_rows,
           config.max_blocks_per_row, config.bucket_bits);
  }
  Machine machine({8, 1, 8, 0});
  Log log;
  log.add(Op::kOpen, 0, {0});
  log.add(Op::kExtend, 1, {0, 3});
  machine.begin(log);
  machine.results.capacity = 2;
  SoloTeam solo;
  apply(solo, machine.state, log.words.data(), log.size(), machine.results);
  EXPECT(machine.results.fault == kResultsFull && machine.results.num_ids == 0, "%s", describe(machine.results.fault));
  EXPECT(machine.state.num_free == 7 && machine.state.rows[0].num_blocks == 0, "the command changed something");
  EXPECT(std::string(verify(machine.state)) == describe(kResultsFull), "verify() reports the fault");
}

/// A wrong reference count is detected when it would fall below zero.
static void test_underflow() {
  Machine machine({8, 1, 8, 0});
  Log log;
  log.add(Op::kOpen, 0, {0});
  log.add(Op::kExtend, 1, {0, 3});
  machine.apply(log);
  machine.state.blocks[2].ref = 0;
  Log release;
  release.add(Op::kRelease, 1, {0});
  machine.apply(release);
  EXPECT(machine.results.fault == kRefUnderflow, "%s", describe(machine.results.fault));
}

/// A state with every feature: open rows that share blocks, twins, pins, dead places, unfinished
/// upkeep.
static void populate(Machine& machine, bool one_by_one) {
  const Shape shape{60, 8, 12, 0, 3};
  Workload workload(shape, 3);
  std::vector<u32> taken;
  for (u32 i = 0; i < 400 || machine.state.unread == kIdle || machine.state.rows_in_use < 3; ++i) {
    Log log;
    for (u32 n = 0; n < 3; ++n) workload.step(log, taken);
    for (u32 at = 0; one_by_one && at < log.size();) {
      const u32 words = 1 + payload_words(log.words[at]);
      machine.apply({std::vector<u32>(log.words.begin() + at, log.words.begin() + at + words)});
      at += words;
    }
    if (!one_by_one) machine.apply(log);
    EXPECT(i < 100'000, "the workload never comes to such a state");
  }
}

static u32 first_block(const State& state, const std::function<bool(const Block&)>& wanted) {
  for (u32 id = 1; id < state.config.num_blocks; ++id) {
    if (wanted(state.blocks[id])) return id;
  }
  EXPECT(false, "no such block");
  return 0;
}

static bool is_published(const Block& block) { return (block.flags & kPublished) != 0; }

static u64 first_live(const State& state) {
  SoloTeam solo;
  u64 place = state.head;
  while (!is_live(solo, state, place)) ++place;
  return place;
}

static u32& ring_at(State& state, u64 place) { return state.ring[static_cast<u32>(place) & state.ring_mask]; }

static u32 open_row(const State& state) {
  for (u32 row = 0; row < state.config.num_rows; ++row) {
    if (state.rows[row].num_blocks >= 2) return row;
  }
  EXPECT(false, "no such row");
  return 0;
}

static void test_digest() {
  Machine machine({60, 8, 12, 0});
  populate(machine, false);
  const u64 before = digest(machine.state);
  State& s = machine.state;
  const u32 row = open_row(s);
  const u32 known = first_block(s, is_published);
  const std::map<std::string, std::function<void()>> changes{
      {"ref", [&] { s.blocks[5].ref += 1; }},
      {"pins", [&] { s.blocks[5].pins += 1; }},
      {"generation", [&] { s.blocks[5].generation += 1; }},
      {"key, low word", [&] { s.blocks[known].key.lo ^= u64{1} << 63; }},
      {"key, high word", [&] { s.blocks[known].key.hi ^= 1; }},
      {"published", [&] { s.blocks[known].flags = 0; }},
      {"queue order", [&] { std::swap(ring_at(s, first_live(s)), ring_at(s, s.tail - 1)); }},
      {"queue head", [&] { s.head = first_live(s) + 1; }},
      {"row order", [&] { std::swap(blocks_of(s, row)[0], blocks_of(s, row)[1]); }},
      {"row length", [&] { s.rows[row].num_blocks -= 1; }},
      {"row in use", [&] { s.rows[row].in_use ^= 1; }},
      {"row generation", [&] { s.rows[row].generation += 1; }},
  };
  for (const auto& [what, change] : changes) {
    Machine keep({60, 8, 12, 0});
    keep.take_over(machine);
    change();
    EXPECT(digest(s) != before, "the digest does not see: %s", what.c_str());
    machine.take_over(keep);
    EXPECT(digest(s) == before, "the copy is not a copy");
  }
  Machine again({60, 8, 12, 0});
  populate(again, true);
  EXPECT(digest(again.state) == before, "the digest depends on how the log was cut");
  EXPECT(again.state.rolling_digest == s.rolling_digest, "the rolling digest depends on how the log was cut");
}

/// Two histories, one with an additional key in between: equal digests, different stamps. Then
/// twins in the reverse order.
static void test_digest_of_histories() {
  const auto run = [](const std::vector<std::vector<u32>>& publishes, bool evict_first) {
    Machine machine({8, 2, 4, 0});
    Log log;
    log.add(Op::kOpen, 0, {0});
    log.add(Op::kExtend, 1, {0, 3});
    if (evict_first) {
      log.add(Op::kPublish, 1, {0, 2, 9, 9, 9, 9});
      log.add(Op::kEvict, 1, {3});
    }
    for (const std::vector<u32>& entry : publishes) log.add(Op::kPublish, 1, entry);
    machine.apply(log);
    EXPECT(machine.results.fault == kNoFault, "%s", describe(machine.results.fault));
    return digest(machine.state);
  };
  const std::vector<u32> first{0, 0, 1, 0, 1, 0}, second{0, 1, 1, 0, 1, 0}, other{0, 2, 2, 0, 2, 0};
  const u64 base = run({first, second, other}, false);
  EXPECT(run({first, second, other}, true) == base, "absolute stamps count");
  EXPECT(run({first, other, second}, false) == base, "the order of blocks with different keys counts");
  EXPECT(run({second, first, other}, false) != base, "the order of twins does not count");
}

static void test_verify() {
  Machine machine({60, 8, 12, 0});
  populate(machine, false);
  EXPECT(verify(machine.state) == nullptr, "%s", verify(machine.state));
  State& s = machine.state;
  const u32 row = open_row(s);
  const u32 known = first_block(s, is_published);
  const u32 unknown = first_block(s, [](const Block& block) { return !is_published(block); });
  const u32 held = first_block(s, [](const Block& block) { return block.ref != 0; });
  u32 free_row = 0;
  while (s.rows[free_row].in_use) ++free_row;
  const u64 live = first_live(s);
  const u32 queued = ring_at(s, live);
  u32* bucket = bucket_of(s, s.blocks[known].key, 0);
  const std::vector<std::pair<std::string, std::function<void()>>> damages{
      {"config: out of range", [&] { s.config.num_blocks = 1; }},
      {"config: ring_mask does not fit", [&] { s.ring_mask >>= 1; }},
      {"config: bucket_mask does not fit", [&] { s.bucket_mask >>= 1; }},
      {"row is in use", [&] { s.fault = kRowInUse; }},
      {"blocks: the null block is in use", [&] { s.blocks[0].ref = 1; }},
      {"queue: the head is behind the tail", [&] { s.head = s.tail + 1; }},
      {"queue: it is longer than the ring", [&] { s.tail = s.head + s.ring_mask + 2; }},
      {"queue: the upkeep cursors crossed", [&] { s.packed = s.unread + 1; }},
      {"queue: upkeep read past the tail", [&] { s.unread = s.tail + 1; }},
      {"queue: live between the cursors", [&] { s.packed = live, s.unread = s.tail; }},
      {"queue: no such block", [&] { ring_at(s, live) = 60; }},
      {"queue: no such block", [&] { ring_at(s, live) = kNullBlock; }},
      {"queue: a block in it is held", [&] { s.blocks[queued].ref = 1; }},
      {"queue: a block in it believes to be elsewhere", [&] { s.blocks[queued].place ^= 1; }},
      {"queue: num_free is not the number of live places", [&] { s.num_free += 1; }},
      {"queue: a block that nobody holds is missing", [&] { s.blocks[held].ref = 0; }},
      {"rows: in_use is neither 0 nor 1", [&] { s.rows[row].in_use = 2; }},
      {"rows: a claim was left behind", [&] { s.rows[row].claimed = 1; }},
      {"rows: a free row holds blocks", [&] { s.rows[free_row].num_blocks = 1; }},
      {"rows: a row is too long", [&] { s.rows[row].num_blocks = 13; }},
      {"rows: no such block", [&] { blocks_of(s, row)[0] = 60; }},
      {"rows: a row holds a block twice", [&] { blocks_of(s, row)[0] = blocks_of(s, row)[1]; }},
      {"rows: rows_in_use is not the number of rows in use", [&] { s.rows_in_use += 1; }},
      {"blocks: ref is not rows plus pins", [&] { s.blocks[held].ref += 1; }},
      {"blocks: ref is not rows plus pins", [&] { s.blocks[held].pins += 1; }},
      {"index: a transient flag was left behind", [&] { s.blocks[known].flags |= kDropped; }},
      {"index: num_published is not the number of published blocks", [&] { s.num_published -= 1; }},
      {"index: a bucket is locked", [&] { *bucket |= kLock; }},
      {"index: no such block", [&] { *bucket = 60; }},
      {"index: a chain holds an unpublished block", [&] { *bucket = unknown; }},
      {"index: a block is in the wrong bucket", [&] { s.blocks[known].key.lo ^= 1; }},
      {"index: a stamp is out of range", [&] { s.blocks[known].stamp = s.next_stamp; }},
      {"index: a stamp is out of range", [&] { s.blocks[known].stamp = 0; }},
      {"index: a block is in a chain twice", [&] { s.blocks[known].next = known; }},
      {"index: a published block is in no chain", [&] { *bucket = kNullBlock; }},
      {"index: two blocks have one stamp", [&] {
         const u64 stamp = s.blocks[known].stamp;
         s.blocks[first_block(s, [&](const Block& b) { return is_published(b) && b.stamp != stamp; })].stamp = stamp;
       }},
  };
  for (const auto& [message, damage] : damages) {
    Machine keep({60, 8, 12, 0});
    keep.take_over(machine);
    damage();
    const char* broken = verify(s);
    EXPECT(broken != nullptr && message == broken, "\"%s\" instead of \"%s\"", broken ? broken : "(nothing)",
           message.c_str());
    machine.take_over(keep);
  }
}

int main() {
  test_layout();
  test_huge_pages();
  test_limits();
  test_underflow();
  test_digest();
  test_digest_of_histories();
  test_verify();
  std::printf("state: layout, huge pages, limits, what the digests see, 36 kinds of damage named by verify()\n");
  return 0;
}
