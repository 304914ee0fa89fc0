// Measures the core on one thread, for the figures of native/core/README.md. This is not a test.
// Run it on a quiet machine.
#include <chrono>

#include "../../core/base/block_hash.h"
#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

/// Times of many runs of one operation.
class Timer {
 public:
  template <class Work>
  void time(Work work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const auto end = std::chrono::steady_clock::now();
    times_.push_back(std::chrono::duration<double, std::nano>(end - start).count());
  }

  double percentile(double part) {
    std::sort(times_.begin(), times_.end());
    return times_[static_cast<std::size_t>(part * static_cast<double>(times_.size() - 1))];
  }

  /// Prints the median and the 99th percentile, divided by `divide`. Compares the median with the
  /// budget, if there is one.
  void report(const char* what, double divide, const char* unit, double budget) {
    const double median = percentile(0.5) / divide;
    std::printf("  %-44s p50 %8.2f  p99 %8.2f  %-8s", what, median, percentile(0.99) / divide, unit);
    if (budget > 0) std::printf("  budget %5.1f %s", budget, median <= budget ? "met" : "MISSED");
    std::printf("\n");
  }

 private:
  std::vector<double> times_;
};

constexpr u32 kLength = 128;  // blocks of a request: 2,048 tokens

class Bench {
 public:
  Bench(u32 num_blocks, bool full) : machine_({num_blocks, 4096, 1024, 0}), keys_(kLength), random_(num_blocks) {
    machine_.ids.resize(4096);
    machine_.results = {machine_.ids.data(), 4096, 0, 0, 0};
    if (full) fill();
  }

  /// One request's life, each part timed: cold admission, release, admission with a full hit,
  /// release.
  void live(Timer& cold, Timer& release, Timer& hit) {
    admit_log(0);
    apply(open_);
    cold.time([&] { apply(rest_); });
    const Log back = release_log(0);
    release.time([&] { apply(back); });
    SoloTeam solo;
    hit.time([&] {
      open_.words.resize(2 + kLength);
      const u32 hits = lookup(solo, machine_.state, keys_.data(), kLength, &open_.words[2]);
      open_.words.resize(2 + hits);
      open_.words[0] = head_word(Op::kOpen, hits);
      open_.words[1] = 0;
      apply(open_);
    });
    EXPECT(machine_.state.rows[0].num_blocks == kLength, "%u hits", machine_.state.rows[0].num_blocks);
    apply(back);
  }

  /// A decode step of 256 running requests. 16 of them need a block and fill a block.
  void decode(Timer& step) {
    if (decoding_ == 0) {
      for (u32 row = 1; row <= 256; ++row) {
        admit_log(row);
        apply(open_);
      }
    }
    Log log;
    std::vector<u32> pairs, entries;
    for (u32 i = 0; i < 16; ++i) {
      const u32 row = 1 + (decoding_ + i * 16) % 256;
      const u32 at = machine_.state.rows[row].num_blocks;
      pairs.insert(pairs.end(), {row, 1});
      entries.insert(entries.end(), {row, at, 0, 0, 0, 0});
      put_key(&entries[entries.size() - 4], fresh_key());
    }
    log.add(Op::kExtend, 16, pairs);
    log.add(Op::kPublish, 16, entries);
    step.time([&] { apply(log); });
    if (++decoding_ % 16 != 0 || machine_.state.num_free > 4096) return;
    for (u32 row = 1; row <= 256; ++row) apply(release_log(row));
    decoding_ = 0;
  }

  const State& state() const { return machine_.state; }

 private:
  Key fresh_key() { return {random_.next(), random_.next()}; }

  static Log release_log(u32 row) {
    Log log;
    log.add(Op::kRelease, 1, {row});
    return log;
  }

  /// Makes open_ an Open without hits, and rest_ the commands that fill the row: kLength blocks
  /// taken and published, with new keys.
  void admit_log(u32 row) {
    open_.words.clear();
    open_.add(Op::kOpen, 0, {row});
    std::vector<u32> entries;
    for (u32 i = 0; i < kLength; ++i) {
      keys_[i] = fresh_key();
      entries.insert(entries.end(), {row, i, 0, 0, 0, 0});
      put_key(&entries[entries.size() - 4], keys_[i]);
    }
    rest_.words.clear();
    rest_.add(Op::kExtend, 1, {row, kLength});
    rest_.add(Op::kPublish, kLength, entries);
  }

  /// Uses and publishes every block. The queue is then in random order of requests.
  void fill() {
    const u32 num_blocks = machine_.state.config.num_blocks;
    const u32 rows = std::min(num_blocks / kLength / 2, 4000u);
    for (u64 i = 0; i < u64{4} * num_blocks / kLength; ++i) {
      const u32 row = i < rows ? static_cast<u32>(i) : random_.below(rows);
      if (machine_.state.rows[row].in_use) apply(release_log(row));
      admit_log(row);
      apply(open_);
      apply(rest_);
    }
    for (u32 row = 0; row < rows; ++row) apply(release_log(row));
  }

  void apply(const Log& log) {
    SoloTeam solo;
    blockstep::apply(solo, machine_.state, log.words.data(), log.size(), machine_.results);
    EXPECT(machine_.results.fault == kNoFault, "%s", describe(machine_.results.fault));
  }

  Machine machine_;
  std::vector<Key> keys_;
  Random random_;
  Log open_, rest_;
  u32 decoding_ = 0;
};

static void bench_pool(u32 num_blocks, bool full) {
  Timer cold, release, hit, decode;
  u64 evictions = 0;
  // A fresh pool evicts no block in its first turn, so each turn gives num_blocks / kLength
  // samples.
  const u32 samples = full ? 4000 : num_blocks / kLength - 3;
  for (u32 pools = full ? 1 : 1 + 4000 / samples; pools != 0; --pools) {
    Bench bench(num_blocks, full);
    for (u32 i = 0; i < samples; ++i) bench.live(cold, release, hit);
    evictions += bench.state().evictions;
    if (!full) continue;
    for (u32 i = 0; i < 4000; ++i) bench.decode(decode);
  }
  EXPECT(full == (evictions != 0), "%llu evictions", wide(evictions));
  const bool small = num_blocks == 10'000;
  std::printf("%u blocks, %s\n", num_blocks, full ? "every block cached before: each one taken is evicted" : "fresh");
  cold.report("extend + publish 128, a block", kLength, "ns", full || !small ? 0 : 25);
  release.report("release a row of 128", 1000, "us", small ? 0.5 : 0);
  hit.report("lookup + open 128 hits", 1000, "us", small ? 1.5 : 0);
  if (full) decode.report("decode step: 16 blocks taken, 16 published", 1000, "us", 0);
}

static void bench_hash() {
  Timer timer;
  std::vector<std::int32_t> tokens(2048);
  Random random(1);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(128'000));
  std::vector<Key> out(kLength);
  const Key seed{random.next(), random.next()};
  for (u32 i = 0; i < 4000; ++i) {
    timer.time([&] { chain(seed, {i, 0}, tokens.data(), 16, kLength, out.data()); });
  }
  timer.report("SipHash-1-3-128, a block of 16 tokens", kLength, "ns", 60);
}

int main() {
  bench_hash();
  for (const u32 num_blocks : {10'000u, 100'000u, 1'048'576u}) {
    for (const bool full : {false, true}) bench_pool(num_blocks, full);
  }
}
