// check(): malformed or inapplicable logs are refused before any change. Good logs never are.
#include "../workload/workload.h"

using namespace blockstep;
using namespace blockstep::test;

/// Rows 0 (blocks 1 to 4, the first published) and 1 (blocks 5, 6) are open. Block 7 has two pins,
/// block 8 has one. 30 blocks are free.
static void set_up(Machine& machine) {
  Log log;
  log.add(Op::kOpen, 0, {0});
  log.add(Op::kOpen, 0, {1});
  log.add(Op::kExtend, 2, {0, 4, 1, 2});
  log.add(Op::kPublish, 1, {0, 0, 1, 2, 3, 4});
  log.add(Op::kPin, 3, {7, 8, 7});
  machine.apply(log);
  EXPECT(machine.results.fault == kNoFault, "%s", describe(machine.results.fault));
}

struct Case {
  const char* what;
  std::vector<u32> words;
  bool applies = false;
};

static u32 head(Op op, u32 count) { return head_word(op, count); }

static std::vector<Case> cases() {
  return {
      {"op 0", {0}},
      {"op 12", {12}},
      {"op 255", {255}},
      {"open without its row", {head(Op::kOpen, 0)}},
      {"open, one hit missing", {head(Op::kOpen, 2), 2, 9}},
      {"a count far beyond the log", {head(Op::kPublish, kMaxCount), 0, 1, 1, 2, 3, 4}},
      {"publish, one word missing", {head(Op::kPublish, 1), 0, 1, 1, 2, 3}},
      {"reset with a count", {head(Op::kReset, 1), 0}},
      {"a good command, then garbage", {head(Op::kOpen, 0), 2, 0}},
      {"open of a row in use", {head(Op::kOpen, 0), 1}},
      {"open of row 8 of 8", {head(Op::kOpen, 0), 8}},
      {"open with a place that holds nothing", {head(Op::kOpen, 1), 2, 0}, true},
      {"open with block 40 of 40", {head(Op::kOpen, 1), 2, 40}},
      {"open with a block twice", {head(Op::kOpen, 2), 2, 9, 9}},
      {"open with 17 of 16 blocks", {head(Op::kOpen, 17), 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                     17}},
      {"open twice", {head(Op::kOpen, 0), 2, head(Op::kOpen, 0), 2}},
      {"extend of a free row", {head(Op::kExtend, 1), 2, 1}},
      {"extend of row 8 of 8", {head(Op::kExtend, 1), 8, 1}},
      {"extend by nothing", {head(Op::kExtend, 1), 0, 0}},
      {"extend of a row twice", {head(Op::kExtend, 2), 0, 1, 0, 1}},
      {"extend to 17 of 16 blocks", {head(Op::kExtend, 1), 0, 13}},
      {"extend by 2^32 - 1", {head(Op::kExtend, 1), 0, ~0u}},
      {"extend by 32 of 31", {head(Op::kOpen, 0), 2, head(Op::kExtend, 3), 0, 12, 1, 14, 2, 6}},
      {"extend by 30 of 31, then 2", {head(Op::kOpen, 0), 2, head(Op::kExtend, 3), 0, 12, 1, 14, 2, 4,
                                      head(Op::kExtend, 1), 2, 2}},
      {"publish of a free row", {head(Op::kPublish, 1), 2, 0, 1, 2, 3, 4}},
      {"publish of row 8 of 8", {head(Op::kPublish, 1), 8, 0, 1, 2, 3, 4}},
      {"publish behind the row's end", {head(Op::kPublish, 1), 0, 4, 1, 2, 3, 4}},
      {"publish of a published block", {head(Op::kPublish, 1), 0, 0, 1, 2, 3, 4}},
      {"publish of a block twice", {head(Op::kPublish, 2), 0, 1, 1, 2, 3, 4, 0, 1, 5, 6, 7, 8}},
      {"release of a free row", {head(Op::kRelease, 1), 2}},
      {"release of row 8 of 8", {head(Op::kRelease, 1), 8}},
      {"release of a row twice", {head(Op::kRelease, 2), 0, 0}},
      {"pin of the null block", {head(Op::kPin, 1), 0}},
      {"pin of block 40 of 40", {head(Op::kPin, 1), 40}},
      {"unpin of a held, unpinned block", {head(Op::kUnpin, 1), 1}},
      {"unpin of a free block", {head(Op::kUnpin, 1), 20}},
      {"unpin of the null block", {head(Op::kUnpin, 1), 0}},
      {"three unpins of two pins", {head(Op::kUnpin, 3), 7, 7, 7}},
      {"evict of the null block", {head(Op::kEvict, 1), 0}},
      {"evict of block 40 of 40", {head(Op::kEvict, 2), 1, 40}},
      {"reset while rows are open", {head(Op::kReset, 0)}},
      {"reset while blocks are pinned", {head(Op::kRelease, 2), 0, 1, head(Op::kUnpin, 2), 7, 8, head(Op::kReset, 0)}},
      {"nothing", {}, true},
      {"empty lists", {head(Op::kExtend, 0), head(Op::kPublish, 0), head(Op::kRelease, 0), head(Op::kPin, 0)}, true},
      {"extend by all 31", {head(Op::kOpen, 0), 2, head(Op::kExtend, 3), 0, 12, 1, 14, 2, 5}, true},
      {"publish again after an eviction", {head(Op::kEvict, 1), 1, head(Op::kPublish, 1), 0, 0, 9, 9, 9, 9}, true},
      {"open again after a release", {head(Op::kRelease, 1), 0, head(Op::kOpen, 2), 0, 1, 2}, true},
      {"publish what was reused in this log",
       {head(Op::kRelease, 2), 0, 1, head(Op::kOpen, 0), 0, head(Op::kOpen, 0), 1, head(Op::kOpen, 0), 2,
        head(Op::kExtend, 3), 0, 16, 1, 16, 2, 5, head(Op::kPublish, 1), 2, 4, 1, 2, 3, 4},
       true},
      {"reset once everything is back", {head(Op::kRelease, 2), 1, 0, head(Op::kUnpin, 3), 7, 8, 7, head(Op::kReset, 0),
                                         head(Op::kOpen, 1), 0, 1, head(Op::kPublish, 1), 0, 0, 1, 2, 3, 4}, true},
  };
}

static void test_cases() {
  for (const Case& test : cases()) {
    Machine machine({40, 8, 16, 0});
    set_up(machine);
    const u64 before = digest(machine.state);
    const u32 words = static_cast<u32>(test.words.size());
    const char* refused = refusal(machine.state, test.words.data(), words);
    EXPECT((refused == nullptr) == test.applies, "%s: %s", test.what, refused ? refused : "not refused");
    EXPECT(digest(machine.state) == before, "%s: check() changed something", test.what);
    if (!test.applies) continue;
    machine.apply({test.words});
    EXPECT(machine.results.fault == kNoFault, "%s: %s", test.what, describe(machine.results.fault));
    EXPECT(verify(machine.state) == nullptr, "%s: %s", test.what, verify(machine.state));
  }
}

/// A poisoned state accepts no log, not even an empty log.
static void test_poisoned() {
  Machine machine({40, 8, 16, 0});
  Log log;
  log.add(Op::kRelease, 1, {0});
  machine.apply(log);
  EXPECT(machine.results.fault == kRowNotInUse, "%s", describe(machine.results.fault));
  EXPECT(!check(machine.state, nullptr, 0), "a poisoned state accepts a log");
}

/// Good logs with words changed or cut off: every log that check() accepts applies completely
/// without a fault.
static void test_damaged(u64 steps, u32& refused, u32& applied) {
  const Shape shape{60, 8, 12, 0, 3};
  Machine machine(config_of(shape));
  Workload workload(shape, 5);
  for (u64 step = 0; step < steps; ++step) {
    Log log;
    std::vector<u32> taken;
    for (u32 i = 1 + workload.random.below(5); i != 0; --i) workload.step(log, taken);
    for (u32 tries = 0; tries < 8 && !log.words.empty(); ++tries) {
      Log damaged = log;
      const bool cut = workload.random.one_in(4);
      if (cut) damaged.words.resize(workload.random.below(damaged.words.size()));
      for (u32 n = cut ? 0 : 1 + workload.random.below(2); n != 0 && !damaged.words.empty(); --n) {
        u32& word = damaged.words[workload.random.below(damaged.words.size())];
        const bool replace = workload.random.one_in(4);
        word = replace ? static_cast<u32>(workload.random.next()) : word + workload.random.below(5) - 2;
      }
      const u64 before = digest(machine.state);
      const bool good = check(machine.state, damaged.words.data(), damaged.size());
      EXPECT(digest(machine.state) == before, "check() changed something");
      (good ? applied : refused) += 1;
      if (!good) continue;
      Machine copy(config_of(shape));
      copy.take_over(machine);
      copy.apply(damaged);
      EXPECT(copy.results.fault == kNoFault, "check() let through: %s", describe(copy.results.fault));
      EXPECT(verify(copy.state) == nullptr, "%s", verify(copy.state));
    }
    machine.apply(log);
  }
}

int main(int argc, char** argv) {
  u32 refused = 0, applied = 0;
  test_cases();
  test_poisoned();
  test_damaged(argument(argc, argv, 1, 400), refused, applied);
  EXPECT(refused > 100 && applied > 100, "%u refused, %u applied", refused, applied);
  std::printf("log: %zu cases by hand; of damaged logs %u were refused and %u applied without a fault\n",
              cases().size(), refused, applied);
  return 0;
}
