// The prefix index with keys chosen by hand: keys that share a bucket, keys that share half their
// bits, and twins. Also pools so large that loops over their blocks prefetch.
#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

static u32 find_one(const Machine& machine, Key key) {
  SoloTeam solo;
  u32 id = kNone;
  return lookup(solo, machine.state, &key, 1, &id) == 1 ? id : kNone;
}

static void publish_one(Machine& machine, u32 row, u32 at, Key key) {
  Log log;
  std::vector<u32> payload{row, at, 0, 0, 0, 0};
  put_key(&payload[2], key);
  log.add(Op::kPublish, 1, payload);
  machine.apply(log);
  EXPECT(machine.results.fault == kNoFault, "%s", describe(machine.results.fault));
}

static void command(Machine& machine, Op op, u32 count, const std::vector<u32>& payload) {
  Log log;
  log.add(op, count, payload);
  machine.apply(log);
  EXPECT(machine.results.fault == kNoFault, "%s", describe(machine.results.fault));
}

/// However few bits of a key choose its bucket, a lookup finds the key's own block or none. Here
/// are 512 keys. Any two differ in a single bit of one of the words, or in a few bits.
static void test_collisions(u32 bits) {
  Machine machine({600, 2, 600, kForceBits + bits});
  std::vector<Key> keys;
  for (u32 i = 0; i < 64; ++i) {
    keys.push_back({u64{1} << i, 0});
    keys.push_back({0, u64{1} << i});
    keys.push_back({u64{1} << i, u64{1} << i});
    keys.push_back({~(u64{1} << i), ~u64{0}});
    keys.push_back({~u64{0}, ~(u64{1} << i)});
    keys.push_back({i, 3});
    keys.push_back({u64{i} << 32 | 5, 5});
    keys.push_back({6, u64{i} << 32 | 6});
  }
  const u32 n = static_cast<u32>(keys.size());
  command(machine, Op::kOpen, 0, {0});
  command(machine, Op::kExtend, 1, {0, n});
  const std::vector<u32> ids = machine.ids;
  for (u32 i = 0; i < n; ++i) {
    const u32 twin = find_one(machine, keys[i]);
    EXPECT(twin == kNone, "key %u is answered by block %u before it is published", i, twin);
    publish_one(machine, 0, i, keys[i]);
  }
  for (u32 i = 0; i < n; ++i) EXPECT(find_one(machine, keys[i]) == ids[i], "%u bits: key %u", bits, i);
  // Every second key is evicted, in one command with repetitions.
  std::vector<u32> half;
  for (u32 i = 0; i < n; i += 2) half.insert(half.end(), {ids[i], ids[i]});
  command(machine, Op::kEvict, static_cast<u32>(half.size()), half);
  EXPECT(machine.results.evictions == n / 2, "%u evictions", machine.results.evictions);
  for (u32 i = 0; i < n; ++i) {
    EXPECT(find_one(machine, keys[i]) == (i % 2 ? ids[i] : kNone), "%u bits: key %u after the eviction", bits, i);
  }
  EXPECT(verify(machine.state) == nullptr, "%s", verify(machine.state));
}

/// Blocks with one key: the oldest published block is the hit, in any order of ids and evictions.
static void test_twins() {
  Machine machine({10, 4, 8, 0});
  const Key key{1, 1};
  command(machine, Op::kOpen, 0, {0});
  command(machine, Op::kExtend, 1, {0, 4});
  for (const u32 at : {2u, 0u, 3u, 1u}) publish_one(machine, 0, at, key);  // ids are at + 1
  for (const u32 id : {3u, 1u, 4u, 2u}) {
    EXPECT(find_one(machine, key) == id, "%u instead of %u", find_one(machine, key), id);
    command(machine, Op::kEvict, 1, {id});
  }
  EXPECT(find_one(machine, key) == kNone, "an evicted key is found");
  publish_one(machine, 0, 1, key);  // an evicted block may be published again
  EXPECT(find_one(machine, key) == 2, "%u", find_one(machine, key));
}

/// A key stays findable while its block is in the queue. It is dropped exactly when the block is
/// reused.
static void test_reuse() {
  Machine machine({4, 2, 4, 0});
  const Key keys[3] = {{1, 1}, {2, 2}, {3, 3}};
  command(machine, Op::kOpen, 0, {0});
  command(machine, Op::kExtend, 1, {0, 3});
  for (u32 i = 0; i < 3; ++i) publish_one(machine, 0, i, keys[i]);
  command(machine, Op::kRelease, 1, {0});
  for (u32 i = 0; i < 3; ++i) EXPECT(find_one(machine, keys[i]) == i + 1, "key %u of a queued block", i);
  command(machine, Op::kOpen, 0, {1});
  command(machine, Op::kExtend, 1, {1, 1});
  EXPECT(machine.ids == std::vector<u32>{3}, "the last block of a row is reused first, not %u", machine.ids[0]);
  EXPECT(machine.results.evictions == 1, "%u", machine.results.evictions);
  EXPECT(find_one(machine, keys[2]) == kNone && find_one(machine, keys[1]) == 2, "only the reused block's key goes");
  command(machine, Op::kOpen, 1, {0, 2});  // a hit leaves the middle of the queue
  command(machine, Op::kExtend, 1, {1, 1});
  EXPECT(machine.ids == std::vector<u32>{1}, "%u", machine.ids[0]);
  EXPECT(find_one(machine, keys[0]) == kNone && find_one(machine, keys[1]) == 2, "a held block keeps its key");
  SoloTeam solo;
  u32 found[3];
  EXPECT(lookup(solo, machine.state, keys, 3, found) == 0, "a run ends at its first miss");
  EXPECT(lookup(solo, machine.state, keys + 1, 2, found) == 1 && found[0] == 2, "a run of one");
  EXPECT(lookup(solo, machine.state, keys, 0, found) == 0, "a run of nothing");
}

/// A team of one that is not SoloTeam, so that it never prefetches.
struct PlainTeam : SoloTeam {};

/// Applies a log to two large pools, of which one prefetches, and expects them to be equal.
static void apply_both(Machine& machine, Machine& plain, Op op, u32 count, const std::vector<u32>& payload) {
  Log log;
  log.add(op, count, payload);
  log.words.shrink_to_fit();  // the address sanitizer then sees reads beyond the end
  machine.apply(log);
  plain.begin(log);
  PlainTeam team;
  blockstep::apply(team, plain.state, log.words.data(), log.size(), plain.results);
  EXPECT(machine.results.fault == kNoFault, "%s", describe(machine.results.fault));
  EXPECT(std::equal(machine.ids.begin(), machine.ids.end(), plain.ids.begin()), "other blocks");
  EXPECT(machine.state.rolling_digest == plain.state.rolling_digest, "op %u of %u", static_cast<u32>(op), count);
}

/// Large pools prefetch: lists of every length around the distances, with short and with long
/// chains.
static void test_large() {
  static_assert(!std::is_same_v<PlainTeam, SoloTeam>);
  constexpr u32 kBlocks = kSmallLookup, kRows = 8, kLongest = 200;
  Random random(1);
  for (const u32 bits : {0u, kForceBits + 12}) {
    Machine machine({kBlocks, kRows, kBlocks, bits});
    Machine plain({kBlocks, kRows, kBlocks, bits});
    const auto both = [&](Op op, u32 count, const std::vector<u32>& payload) {
      apply_both(machine, plain, op, count, payload);
    };
    // Every block gets a key, and is queued.
    both(Op::kOpen, 0, {0});
    both(Op::kExtend, 1, {0, kBlocks - 1});
    std::vector<Key> keys(kBlocks - 1);
    std::vector<u32> entries;
    for (u32 i = 0; i + 1 < kBlocks; ++i) {
      keys[i] = {random.next(), random.next()};
      entries.insert(entries.end(), {0, i, 0, 0, 0, 0});
      put_key(&entries[entries.size() - 4], keys[i]);
    }
    both(Op::kPublish, kBlocks - 1, entries);
    both(Op::kRelease, 1, {0});
    for (u32 length = 0; length <= kLongest; length += length < 60 ? 1 : 20) {
      const u32 row = length % kRows;
      SoloTeam solo;
      const std::vector<Key> wanted(keys.begin(), keys.begin() + length);
      std::vector<u32> hits(length);
      EXPECT(lookup(solo, machine.state, wanted.data(), length, hits.data()) == length, "%u hits", length);
      hits.insert(hits.begin(), row);
      both(Op::kOpen, length, hits);
      if (length != 0) both(Op::kExtend, 1, {row, length});
      const std::vector<u32> taken = machine.ids;
      entries.clear();
      for (u32 i = 0; i < length; ++i) {
        entries.insert(entries.end(), {row, length + i, 0, 0, 0, 0});
        put_key(&entries[entries.size() - 4], {random.next(), random.next()});
      }
      both(Op::kPublish, length, entries);
      if (length % 3 == 0) both(Op::kEvict, length, taken);
      both(Op::kRelease, 1, {row});
    }
    EXPECT(verify(machine.state) == nullptr, "%s", verify(machine.state));
    EXPECT(digest(machine.state) == digest(plain.state), "%u bits", bits);
  }
}

int main() {
  for (u32 bits = 0; bits <= 8; ++bits) test_collisions(bits);
  test_twins();
  test_reuse();
  test_large();
  std::printf("index: 512 colliding keys in 1 to 256 buckets, twins, reuse; large pools with and without fetching ahead\n");
  return 0;
}
