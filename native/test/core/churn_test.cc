// One million blocks and 4,096 rows under churn: the ring never overflows, the cost of upkeep stays
// bounded, and lookups stay fast.
#include <chrono>

#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

static double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Cost of one kind of command.
struct Cost {
  double ns = 0, longest = 0;
  u64 blocks = 0;

  void add(double took, u64 count) {
    ns += took;
    longest = std::max(longest, took);
    blocks += count;
  }
  double each() const { return ns / static_cast<double>(blocks); }
};

class Churn {
 public:
  static constexpr u32 kBlocks = 1u << 20;
  static constexpr u32 kRows = 4096;
  static constexpr u32 kLongest = 512;

  explicit Churn(u32 unhashed_first)
      : memory_(std::calloc(1, static_cast<std::size_t>(state_bytes(kConfig)) + 64), std::free), random_(7) {
    EXPECT(memory_ != nullptr, "%llu bytes", wide(state_bytes(kConfig)));
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory_.get()) + 63) / 64 * 64);
    Config config = kConfig;
    config.unhashed_first = unhashed_first;
    bind_state(state, config, aligned);
    init_state(state);
    results_ = {ids_, kLongest, 0, 0, 0};
  }

  /// Requests of 16 to 512 blocks come and go until the pool was turned over `turns` times. Half of
  /// the admissions look up an earlier request's keys.
  void turn_over(u64 turns) {
    const u64 until = state.num_taken + turns * kBlocks;
    while (state.num_taken < until) {
      const u32 row = random_.below(kRows);
      if (state.rows[row].in_use) apply(Op::kRelease, 1, {row}, release, state.rows[row].num_blocks);
      while (state.num_free < kLongest) release_any();
      admit(row);
    }
    check_all("turn over");
  }

  /// All blocks are free. They are touched and come back, and none is ever taken. Every place that
  /// they leave stays dead until upkeep finds it. `from` and `to` are the places of the queue to
  /// pick from. `forgets`: the blocks lose their keys meanwhile.
  template <class From, class To>
  void shuffle(u64 rounds, const char* name, From from, To to, bool forgets = false) {
    for (u32 row = 0; row < kRows; ++row) {
      if (state.rows[row].in_use) apply(Op::kRelease, 1, {row}, release, state.rows[row].num_blocks);
    }
    for (u64 round = 0; round < rounds; ++round) {
      std::vector<u32> ids;
      for (u32 i = 0; i < 256; ++i) {
        const u64 least = from();
        u64 place = least + random_.next() % (to() - least);
        for (u32 tries = 0; !live(place) && tries < 64; ++tries) place = least + random_.next() % (to() - least);
        while (!live(place)) place = place + 1 < state.tail ? place + 1 : state.head;
        ids.push_back(state.ring[static_cast<u32>(place) & state.ring_mask]);
      }
      apply(Op::kPin, 256, ids, pin, 256);
      if (forgets) apply(Op::kEvict, 256, ids, evict, 256);
      apply(Op::kUnpin, 256, ids, unpin, 256);
    }
    check_all(name);
  }

  void check_all(const char* name) const {
    const char* broken = verify(state);
    EXPECT(broken == nullptr, "%s: %s", name, broken);
    EXPECT(longest_queue <= u64{state.ring_mask} + 1, "%s: the ring overflowed", name);
    std::printf("  %-34s longest queue so far %.2f N of %.0f N\n", name,
                static_cast<double>(longest_queue) / kBlocks, static_cast<double>(state.ring_mask + 1) / kBlocks);
  }

  State state;
  Cost release, extend, publish, hit, pin, unpin, evict;
  u64 longest_queue = 0, upkeep_rounds = 0, hits = 0;

 private:
  static constexpr Config kConfig{kBlocks, kRows, kLongest, 0};

  bool live(u64 place) const {
    const u32 at = static_cast<u32>(place) & state.ring_mask;
    return state.live[at >> 5] >> (at & 31) & 1;
  }

  void release_any() {
    u32 row = random_.below(kRows);
    while (!state.rows[row].in_use) row = (row + 1) % kRows;
    apply(Op::kRelease, 1, {row}, release, state.rows[row].num_blocks);
  }

  static Key key(u64 doc, u64 index) { return {mix(doc, index), mix(index, doc)}; }

  void admit(u32 row) {
    const u32 length = 16 + random_.below(kLongest - 16);
    const u64 doc = random_.one_in(2) && docs_ ? docs_ - random_.below(std::min<u64>(docs_, 6000)) : ++docs_;
    std::vector<Key> keys;
    for (u32 i = 0; i < length; ++i) keys.push_back(key(doc, i));
    std::vector<u32> open(length + 1, row);
    SoloTeam solo;
    const double start = now_ns();
    const u32 found = lookup(solo, state, keys.data(), length, &open[1]);
    hit.add(now_ns() - start, found + 1);
    hits += found;
    open.resize(found + 1);
    apply(Op::kOpen, found, open, hit, 0);
    if (found == length) return;
    apply(Op::kExtend, 1, {row, length - found}, extend, length - found);
    std::vector<u32> entries;
    for (u32 i = found; i < length; ++i) {
      entries.insert(entries.end(), {row, i, 0, 0, 0, 0});
      put_key(&entries[entries.size() - 4], keys[i]);
    }
    apply(Op::kPublish, length - found, entries, publish, length - found);
  }

  void apply(Op op, u32 count, const std::vector<u32>& payload, Cost& cost, u64 blocks) {
    Log log;
    log.add(op, count, payload);
    SoloTeam solo;
    const bool idle = state.unread == kIdle;
    const u64 from = idle ? state.head : std::max(state.head, state.unread);
    const double start = now_ns();
    blockstep::apply(solo, state, log.words.data(), log.size(), results_);
    cost.add(now_ns() - start, blocks);
    EXPECT(results_.fault == kNoFault, "%s", describe(results_.fault));
    longest_queue = std::max(longest_queue, state.tail - state.head);
    upkeep_rounds += idle && state.unread != kIdle;
    // Exactly four places for each block that may be appended.
    if (state.unread == kIdle) return;
    EXPECT(state.unread <= from + 4 * blocks, "%llu places read for %llu blocks",
           wide(state.unread - from), wide(blocks));
  }

  std::unique_ptr<void, void (*)(void*)> memory_;
  Random random_;
  u32 ids_[kLongest];
  Results results_{};
  u64 docs_ = 0;
};

static void run(u32 unhashed_first, u64 scale) {
  Churn churn(unhashed_first);
  std::printf("%s\n", unhashed_first ? "blocks without a key before the head:" : "all blocks at the tail:");
  churn.turn_over(2 * scale);
  const State& state = churn.state;
  const auto head = [&] { return state.head; };
  const auto tail = [&] { return state.tail; };
  const auto newest = [&] { return state.tail - (state.tail - state.head) / 10; };
  // The worst case for upkeep: the places that it has just packed die next.
  const auto packed = [&] { return state.unread != kIdle && state.packed > state.head ? state.packed : state.tail; };
  churn.shuffle(12'000 * scale, "shuffle, anywhere in the queue", head, tail);
  churn.shuffle(12'000 * scale, "shuffle, the newest tenth", newest, tail);
  churn.shuffle(12'000 * scale, "shuffle, what upkeep just packed", head, packed);
  if (unhashed_first) {
    const u64 head_before = state.head;
    churn.shuffle(12'000 * scale, "shuffle without keys, anywhere", head, tail, true);
    churn.shuffle(12'000 * scale, "shuffle without keys, just packed", head, packed, true);
    EXPECT(state.head < head_before, "nothing was queued before the head");
  }
  churn.turn_over(scale);
  EXPECT(churn.upkeep_rounds >= 3, "only %llu upkeep rounds", wide(churn.upkeep_rounds));
  EXPECT(churn.hits > 0 && state.evictions > 0, "no hits or no evictions");
  std::printf("  %llu taken, %llu hits, %llu evictions, %llu upkeep rounds\n",
              wide(state.num_taken), wide(churn.hits),
              wide(state.evictions), wide(churn.upkeep_rounds));
  std::printf("  ns a block: extend %.0f, publish %.0f, lookup + open %.0f, release %.0f, pin %.0f, unpin %.0f\n",
              churn.extend.each(), churn.publish.each(), churn.hit.each(), churn.release.each(), churn.pin.each(),
              churn.unpin.each());
  std::printf("  longest command, us: extend %.0f, release %.0f, unpin %.0f\n", churn.extend.longest / 1e3,
              churn.release.longest / 1e3, churn.unpin.longest / 1e3);
}

int main(int argc, char** argv) {
  const u64 scale = argument(argc, argv, 1, 1);
  std::printf("churn: %u blocks, %u rows, %.1f bytes a block without the rows\n", Churn::kBlocks, Churn::kRows,
              static_cast<double>(state_bytes({Churn::kBlocks, 1, 1, 0})) / Churn::kBlocks);
  run(0, scale);
  run(1, scale);
  return 0;
}
