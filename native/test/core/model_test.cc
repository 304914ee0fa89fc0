// Random command sequences against the sequential model. The whole state is compared after every
// step.
#include "../workload/workload.h"

using namespace blockstep;
using namespace blockstep::test;

/// The code paths that a run has covered. A run that misses a path proves nothing about it.
struct Coverage {
  u64 commands = 0, hits = 0, evictions = 0, upkeep_rounds = 0, laps = 0;
  bool moved_back = false;
};

static void run(const Shape& shape, u64 seed, u64 steps, Coverage& coverage) {
  Machine machine(config_of(shape));
  Workload workload(shape, seed);
  SoloTeam solo;
  u64 head_laps = 0;
  for (u64 step = 0; step < steps; ++step) {
    Log log;
    std::vector<u32> taken;
    workload.step(log, taken);
    const char* refused = refusal(machine.state, log.words.data(), log.size());
    EXPECT(refused == nullptr, "step %llu: check() refuses a good log: %s", wide(step), refused);
    const bool upkeep_before = machine.state.unread != kIdle;
    const u64 evictions = machine.state.evictions;
    const u64 head_before = machine.state.head;
    machine.apply(log);
    const State& state = machine.state;
    EXPECT(machine.results.fault == kNoFault, "step %llu: %s", wide(step),
           describe(machine.results.fault));
    EXPECT(machine.ids == taken, "step %llu: other blocks were taken", wide(step));
    EXPECT(machine.results.evictions == state.evictions - evictions, "step %llu", wide(step));
    expect_equal(state, workload.model, step);
    const char* broken = verify(state);
    EXPECT(broken == nullptr, "step %llu: %s", wide(step), broken);
    coverage.upkeep_rounds += !upkeep_before && state.unread != kIdle;
    head_laps = state.head < kFirstPlace ? 0 : (state.head - kFirstPlace) / (u64{state.ring_mask} + 1);
    coverage.moved_back |= state.head < head_before;

    const std::vector<Key> keys = workload.some_keys();
    std::vector<u32> found(keys.size() + 1);
    const u32 n = lookup(solo, state, keys.data(), static_cast<u32>(keys.size()), found.data());
    found.resize(n);
    EXPECT(found == workload.hits_of(keys), "step %llu: lookup() differs", wide(step));
  }
  coverage.commands += workload.num_commands;
  coverage.hits += workload.num_hits;
  coverage.evictions += workload.model.evictions;
  coverage.laps += head_laps;
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 3000);
  const u64 first_seed = argument(argc, argv, 2, 1);
  Coverage coverage;
  u64 seed = first_seed;
  for (const u32 first : {0u, 1u}) {
    for (const u32 bits : {0u, kForceBits, kForceBits + 1, kForceBits + 4, kForceBits + 8}) {
      run({24, 6, 8, bits, 3, first}, seed++, steps, coverage);
      run({100, 12, 16, bits, 6, first}, seed++, steps, coverage);
      run({300, 40, 24, bits, 12, first}, seed++, steps / 4, coverage);
    }
    run({2, 2, 1, 0, 1, first}, seed++, steps, coverage);  // one block besides the null block
    run({8, 3, 4, 0, 2, first}, seed++, steps, coverage);  // the ring's live bits are two words
    run({33, 1, 40, 0, 2, first}, seed++, steps, coverage);
  }
  std::printf("model: %llu commands, %llu hits, %llu evictions, %llu upkeep rounds, %llu laps of the ring\n",
              wide(coverage.commands), wide(coverage.hits),
              wide(coverage.evictions),
              wide(coverage.upkeep_rounds), wide(coverage.laps));
  EXPECT(coverage.hits && coverage.evictions && coverage.upkeep_rounds && coverage.laps && coverage.moved_back,
         "a path was never taken");
  return 0;
}
