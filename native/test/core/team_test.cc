// Teams of 1, 2, 3 and 5 threads against the team of one and the sequential model. Built with the
// thread sanitizer.
#include "../support/thread_team.h"
#include "../workload/workload.h"

using namespace blockstep;
using namespace blockstep::test;

/// The work of one launch: logs and, after each log, a lookup. Only the core's own barriers lie in
/// between.
struct Launch {
  struct Part {
    Log log;
    std::vector<u32> taken;     // blocks that the model takes
    std::vector<Key> keys;      // looked up afterwards
    std::vector<u32> expected;  // the model's hits
    Results results{};
    std::vector<u32> ids;
    std::vector<u32> found;
    u32 hits = 0;
  };
  std::vector<Part> parts;
  u64 digest = 0;
};

static Launch draw(Workload& workload) {
  Launch launch;
  launch.parts.resize(1 + workload.random.below(3));
  for (Launch::Part& part : launch.parts) {
    for (u32 n = 1 + workload.random.below(6); n != 0; --n) workload.step(part.log, part.taken);
    part.keys = workload.some_keys();
    part.expected = workload.hits_of(part.keys);
    part.ids.resize(part.taken.size() + 1);
    part.found.resize(part.keys.size() + 1);
    part.results = {part.ids.data(), static_cast<u32>(part.taken.size()), 0, 0, 0};
  }
  return launch;
}

template <class T>
static void perform(T& team, Machine& machine, Launch& launch) {
  for (Launch::Part& part : launch.parts) {
    apply(team, machine.state, part.log.words.data(), part.log.size(), part.results);
    const u32 num_keys = static_cast<u32>(part.keys.size());
    const u32 hits = lookup(team, machine.state, part.keys.data(), num_keys, part.found.data());
    if (team.rank() == 0) part.hits = hits;
  }
  const u64 all = digest(team, machine.state);
  if (team.rank() == 0) launch.digest = all;
}

static void expect_as_model(const Launch& launch, u32 size, u64 step) {
  const auto at = wide(step);
  for (const Launch::Part& part : launch.parts) {
    EXPECT(part.results.fault == kNoFault, "%u members, launch %llu: %s", size, at, describe(part.results.fault));
    EXPECT(part.results.num_ids == part.taken.size(), "%u members, launch %llu", size, at);
    EXPECT(std::equal(part.taken.begin(), part.taken.end(), part.ids.begin()), "%u members, launch %llu: other blocks "
           "were taken", size, at);
    EXPECT(part.hits == part.expected.size(), "%u members, launch %llu: %u hits", size, at, part.hits);
    EXPECT(std::equal(part.expected.begin(), part.expected.end(), part.found.begin()), "%u members, launch %llu: other "
           "blocks were hit", size, at);
  }
}

static u64 run(const Shape& shape, u32 size, u64 seed, u64 launches) {
  Machine alone(config_of(shape));
  Machine together(config_of(shape));
  Workload workload(shape, seed);
  SoloTeam solo;
  for (u64 step = 0; step < launches; ++step) {
    Launch first = draw(workload);
    Launch second = first;
    for (Launch::Part& part : second.parts) part.results.ids = part.ids.data();
    perform(solo, alone, first);
    test::launch(size, [&](ThreadTeam& team) { perform(team, together, second); });
    expect_as_model(first, 1, step);
    expect_as_model(second, size, step);
    const auto at = wide(step);
    EXPECT(first.digest == second.digest, "%u members, launch %llu: the digests differ", size, at);
    EXPECT(alone.state.rolling_digest == together.state.rolling_digest, "%u members, launch %llu: the rolling digests "
           "differ", size, at);
    expect_equal(together.state, workload.model, step);
    const char* broken = verify(together.state);
    EXPECT(broken == nullptr, "%u members, launch %llu: %s", size, at, broken);
  }
  return workload.num_commands;
}

/// Every member reports the same fault, and no member stays at a barrier.
static void run_faults(u32 size) {
  const Config config{40, 8, 16, 0};
  const std::vector<std::pair<u32, Log>> cases = [] {
    std::vector<std::pair<u32, Log>> list;
    const auto one = [&](u32 fault, Op op, u32 count, const std::vector<u32>& payload) {
      list.emplace_back(fault, Log{});
      list.back().second.add(op, count, payload);
    };
    one(kRowInUse, Op::kOpen, 0, {0});
    one(kRowNotInUse, Op::kRelease, 1, {5});
    one(kRowNotInUse, Op::kRelease, 3, {1, 0, 0});
    one(kRowNotInUse, Op::kExtend, 2, {0, 1, 5, 1});
    one(kRowRepeated, Op::kExtend, 3, {0, 1, 1, 1, 0, 1});
    one(kRowTooLong, Op::kExtend, 2, {1, 1, 0, 13});
    one(kNoFreeBlocks, Op::kExtend, 3, {0, 12, 1, 14, 2, 14});
    one(kBadCommand, Op::kExtend, 1, {0, 0});
    one(kBadCommand, Op::kExtend, 9, std::vector<u32>(18, 1));  // more pairs than there are rows
    one(kNoSuchBlock, Op::kPublish, 2, {0, 3, 1, 2, 3, 4, 0, 4, 1, 2, 3, 4});
    one(kAlreadyPublished, Op::kPublish, 2, {0, 1, 1, 2, 3, 4, 0, 1, 1, 2, 3, 4});
    one(kRefUnderflow, Op::kUnpin, 3, {7, 7, 7});
    one(kRefUnderflow, Op::kUnpin, 3, {7, 8, 1});
    one(kBlocksInUse, Op::kReset, 0, {});
    return list;
  }();
  for (const auto& [fault, log] : cases) {
    Machine machine(config);
    Log before;
    before.add(Op::kOpen, 0, {0});
    before.add(Op::kOpen, 0, {1});
    before.add(Op::kOpen, 0, {2});
    before.add(Op::kExtend, 2, {0, 4, 1, 2});
    before.add(Op::kPin, 3, {7, 7, 8});
    machine.apply(before);
    EXPECT(machine.results.fault == kNoFault, "%s", describe(machine.results.fault));
    EXPECT(!check(machine.state, log.words.data(), log.size()), "check() lets through: %s", describe(fault));
    machine.begin(log);
    Results& results = machine.results;
    test::launch(size, [&](ThreadTeam& team) {
      apply(team, machine.state, log.words.data(), log.size(), results);
      apply(team, machine.state, before.words.data(), before.size(), results);  // a poisoned state applies nothing
    });
    EXPECT(results.fault == fault, "%u members: %s instead of %s", size, describe(results.fault), describe(fault));
    EXPECT(machine.state.num_commands == 6, "%llu commands", wide(machine.state.num_commands));
  }
}

int main(int argc, char** argv) {
  const u64 launches = argument(argc, argv, 1, 40);
  u64 commands = 0, seed = 100;
  for (const u32 size : {1u, 2u, 3u, 5u}) {
    for (const u32 bits : {0u, kForceBits, kForceBits + 3}) {
      for (const u32 first : {0u, 1u}) {
        commands += run({8, 3, 6, bits, 2, first}, size, seed++, launches);
        commands += run({24, 6, 8, bits, 2, first}, size, seed++, launches);
        commands += run({100, 12, 16, bits, 6, first}, size, seed++, launches);
      }
    }
    run_faults(size);
  }
  std::printf("teams of 1, 2, 3 and 5 threads: %llu commands as the team of one and the model; all faults agree\n",
              wide(commands));
  return 0;
}
