// decide() against a HostCore that is called operation by operation: the same decisions, the same
// log, the same state.
//
//   decide_test [steps] [sizes of the teams]...   1: the team of one; other sizes are built
//                                                 with the thread sanitizer
#include "../../core/decide/decide.h"
#include "../workload/decide_workload.h"
#include "../support/host_core.h"
#include "../support/thread_team.h"
#include "broken_batches.h"

using namespace blockstep;
using namespace blockstep::test;

/// The result of a team for a step.
struct Played {
  std::vector<u32> decision, ids, log;
  u64 digest = 0;
};

/// Room for a decision, filled with values that are no valid answer. The vectors are never empty,
/// because data() may be null then.
static Played room_for(const DecideStep& step, u32 num_blocks) {
  Played played;
  played.ids.assign(num_blocks, kNone);
  played.log.assign(step.max_log + 1, kNone);
  played.decision.assign(static_cast<std::size_t>(decision_words(step.num_admissions, num_blocks, step.max_log)), kNone);
  return played;
}

template <class T>
static void play(T& team, Machine& machine, const DecideStep& step, Played& played) {
  const Workspace workspace{played.ids.data(), static_cast<u32>(played.ids.size()), played.log.data(), step.max_log};
  decide(team, machine.state, step.batch.data(), static_cast<u32>(step.batch.size()), workspace,
         played.decision.data());
  const u64 all = digest(team, machine.state);
  if (team.rank() == 0) played.digest = all;
}

static void expect_as_host(const DecideStep& step, const Played& played, u32 size, u64 at) {
  const DecisionHeader& header = record_at<DecisionHeader>(played.decision.data());
  EXPECT(header.fault == kNoFault, "%u members, step %llu: %s", size, wide(at), describe(header.fault));
  for (std::size_t i = 0; i < step.decision.size(); ++i) {
    EXPECT(i < played.decision.size() && played.decision[i] == step.decision[i],
           "%u members, step %llu, stop %u: word %zu of the decision is %u instead of %u", size, wide(at), header.stop, i,
           played.decision[i], step.decision[i]);
  }
  EXPECT(played.digest == step.digest, "%u members, step %llu: another state", size, wide(at));
}

/// Compares all parts that must agree in two states with the same commands.
static void expect_same(const State& a, const State& b, u32 size, u64 at) {
  const auto step = wide(at);
  EXPECT(queue_of(a) == queue_of(b), "%u members, step %llu: the queues differ", size, step);
  EXPECT(a.rolling_digest == b.rolling_digest && a.num_commands == b.num_commands, "%u members, step %llu", size, step);
  EXPECT(a.num_taken == b.num_taken && a.next_stamp == b.next_stamp, "%u members, step %llu", size, step);
  EXPECT(a.evictions == b.evictions && a.num_published == b.num_published, "%u members, step %llu", size, step);
  EXPECT(a.head == b.head && a.tail == b.tail && a.packed == b.packed, "%u members, step %llu", size, step);
  for (u32 id = 1; id < a.config.num_blocks; ++id) {
    const Block& x = a.blocks[id];
    const Block& y = b.blocks[id];
    EXPECT(x.ref == y.ref && x.pins == y.pins && x.generation == y.generation && x.flags == y.flags,
           "%u members, step %llu: block %u differs", size, step, id);
    EXPECT(x.ref != 0 || x.place == y.place, "%u members, step %llu: block %u stands elsewhere", size, step, id);
    EXPECT(!(x.flags & kPublished) || (x.key == y.key && x.stamp == y.stamp), "%u members, step %llu: block %u was "
           "published otherwise", size, step, id);
  }
  for (u32 row = 0; row < a.config.num_rows; ++row) {
    const Row& x = a.rows[row];
    const Row& y = b.rows[row];
    EXPECT(x.in_use == y.in_use && x.num_blocks == y.num_blocks && x.generation == y.generation, "%u members, step "
           "%llu: row %u differs", size, step, row);
    EXPECT(std::equal(blocks_of(a, row), blocks_of(a, row) + x.num_blocks, blocks_of(b, row)), "%u members, step %llu: "
           "row %u holds other blocks", size, step, row);
  }
}

/// Applies the facts of the batch and the log of the decision, like a mirror.
static void replay_step(Machine& mirror, const DecideStep& step) {
  const BatchHeader& batch = record_at<BatchHeader>(step.batch.data());
  const DecisionHeader& decision = record_at<DecisionHeader>(step.decision.data());
  const auto facts = step.batch.begin() + kWordsOf<BatchHeader>;
  mirror.apply({std::vector<u32>(facts, facts + batch.fact_words)});
  const Log log{std::vector<u32>(step.decision.end() - decision.log_words, step.decision.end())};
  const char* refused = refusal(mirror.state, log.words.data(), log.size());
  EXPECT(refused == nullptr, "the log of a decision does not apply: %s", refused);
  mirror.apply(log);
  EXPECT(mirror.results.fault == kNoFault, "%s", describe(mirror.results.fault));
  EXPECT(mirror.ids.size() == decision.num_ids, "%zu ids instead of %u", mirror.ids.size(), decision.num_ids);
  const auto ids = step.decision.end() - decision.log_words - decision.num_ids;
  EXPECT(std::equal(mirror.ids.begin(), mirror.ids.end(), ids), "the log takes other blocks than the decision says");
}

/// Runs several steps per launch, so that the barrier at its end hides no barrier missing in
/// decide().
static void run(const MixShape& shape, u32 size, u64 seed, u64 steps, DecideCoverage& coverage) {
  DecideWorkload workload(shape, seed, coverage);
  Machine machine(shape.pool);
  Machine mirror(shape.pool);
  for (u64 at = 0; at < steps;) {
    std::vector<DecideStep> list;
    for (u32 n = 1 + workload.random.below(4); n != 0; --n) list.push_back(workload.next());
    std::vector<Played> played;
    for (const DecideStep& step : list) played.push_back(room_for(step, shape.pool.num_blocks));
    const auto play_all = [&](auto& team) {
      for (std::size_t i = 0; i < list.size(); ++i) play(team, machine, list[i], played[i]);
    };
    if (size == 1) {
      SoloTeam solo;
      play_all(solo);
    } else {
      test::launch(size, [&](ThreadTeam& team) { play_all(team); });
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      expect_as_host(list[i], played[i], size, at + i);
      replay_step(mirror, list[i]);
    }
    expect_same(machine.state, mirror.state, size, at);
    EXPECT(queue_of(machine.state) == list.back().queue, "%u members, step %llu: another queue", size, wide(at));
    const char* broken = verify(machine.state);
    EXPECT(broken == nullptr, "%u members, step %llu: %s", size, wide(at), broken);
    at += list.size();
  }
}

static std::vector<MixShape> shapes() {
  // pool {blocks, rows, blocks a row, bits}, block size, running, budget, prefill limit, lookahead,
  // flags, caching, docs
  return {
      {{40, 12, 10, 0}, 4, 8, 40, 0, 0, kUsual, true, 3},
      {{40, 5, 10, 0}, 4, 12, 64, 0, 0, kChunkedPrefill, true, 3},
      {{24, 8, 8, kForceBits}, 2, 6, 16, 7, 0, kUsual, true, 2},
      {{60, 16, 12, kForceBits + 2}, 4, 12, 48, 20, 3, kUsual | kDropLastHit, true, 4},
      {{60, 16, 12, 0}, 3, 12, 64, 0, 5, kReserveAll, true, 4},
      {{30, 8, 20, 0}, 1, 6, 12, 0, 2, kChunkedPrefill, true, 2},
      {{50, 10, 12, 0}, 4, 8, 32, 0, 0, kUsual, false, 3},
      {{8, 3, 6, 0}, 2, 3, 8, 0, 0, kUsual, true, 2},
      {{400, 40, 40, kForceBits + 3}, 4, 30, 400, 0, 0, kUsual, true, 6},
      // rules: draft slots, padding, blocks that stay free, blocks that must be free beside a load
      {{60, 16, 12, 0}, 4, 12, 64, 0, 3, kUsual | kAheadAlways, true, 4, {1, 3, 0, 0}},
      {{60, 16, 12, 0}, 2, 12, 30, 3, 2, kUsual, true, 3, {2, 4, 6, 9}},
      {{90, 16, 12, kForceBits + 2}, 4, 12, 64, 0, 3, kReserveAll | kDropLastHit | kAheadAlways, true, 3, {0, 2, 9, 20}},
  };
}

/// Every member finds the same fault, no member waits forever at a barrier, no write leaves its
/// buffer, and the state accepts no more commands.
static void run_broken(u32 size) {
  for (const BrokenBatch& test : broken_batches()) {
    Machine machine({40, 4, 8, 0});
    std::vector<u32> batch = good_batch();
    std::vector<u32> ids(64, kNone), log(64, kNone), decision(256, kNone);
    Workspace workspace{ids.data(), 64, log.data(), 64};
    test.damage(batch, workspace);
    const std::vector<u32> good = good_batch();
    std::vector<u32> after(256, kNone);
    const auto twice = [&](auto& team) {
      decide(team, machine.state, batch.data(), static_cast<u32>(batch.size()), workspace, decision.data());
      if (test.fault == kNoFault) return;
      decide(team, machine.state, good.data(), static_cast<u32>(good.size()), workspace, after.data());
    };
    if (size == 1) {
      SoloTeam solo;
      twice(solo);
    } else {
      test::launch(size, [&](ThreadTeam& team) { twice(team); });
    }
    const DecisionHeader& header = record_at<DecisionHeader>(decision.data());
    EXPECT(header.fault == test.fault, "%u members, %s: %s", size, test.what, describe(header.fault));
    EXPECT(machine.state.fault == test.fault, "%u members, %s", size, test.what);
    for (u32 i = workspace.max_ids; i < 64; ++i) EXPECT(ids[i] == kNone, "%s: an id too many", test.what);
    for (u32 i = workspace.max_log; i < 64; ++i) EXPECT(log[i] == kNone, "%s: a word too many", test.what);
    if (test.fault == kNoFault) {
      EXPECT(header.num_run == 2 && header.num_admitted == 1 && header.num_ids == 10, "%s", test.what);
      continue;
    }
    EXPECT(header.words == kWordsOf<DecisionHeader> && header.num_run == 0 && header.stop == 0, "%s", test.what);
    EXPECT(record_at<DecisionHeader>(after.data()).fault == test.fault, "%s: the state goes on", test.what);
  }
}

/// A block that is already published, and no other publication: no Publish in the log.
static void run_known(u32 size) {
  Machine machine({40, 4, 8, 0});
  BatchWriter writer;
  writer.clear();
  Log facts;
  facts.add(Op::kOpen, 0, {0});
  facts.add(Op::kExtend, 1, {0, 2});
  facts.add(Op::kPublish, 1, {0, 1, 1, 0, 1, 0});
  writer.facts(facts.words.data(), facts.size());
  writer.run(0, 1);
  writer.publication(0, 1, {1, 1});
  const std::vector<u32> batch = writer.words({kUsual, 0, 0, 4, 0, 0, 32});
  std::vector<u32> ids(40), log(40), decision(120);
  const Workspace workspace{ids.data(), 40, log.data(), 40};
  test::launch(size, [&](ThreadTeam& team) {
    decide(team, machine.state, batch.data(), static_cast<u32>(batch.size()), workspace, decision.data());
  });
  const DecisionHeader& header = record_at<DecisionHeader>(decision.data());
  EXPECT(header.fault == kNoFault && header.num_run == 1, "%u members: %s", size, describe(header.fault));
  EXPECT(header.log_words == 3 && op_of(log[0]) == Op::kExtend, "%u members: %u words", size, header.log_words);
}

/// Spare blocks stay free: before the first admission if requests run, before later admissions
/// always.
static void run_spared(u32 size) {
  for (const bool others_run : {false, true}) {
    Machine machine({40, 4, 8, 0});
    BatchWriter writer;
    writer.clear();
    const Key keys[] = {{3, 3}, {4, 4}};
    for (u32 row = 0; row < 2; ++row) {
      writer.free_row(row);
      writer.admission({9, 0, kNone, 0, 2, kNone, 0, 0}, keys);
    }
    BatchLimits limits = {kUsual | (others_run ? u32{kOthersRun} : 0u), 100, 4, 4, 0, 0, 32};
    limits.spare_blocks = 37;  // of 39, and an admission takes 3
    const std::vector<u32> batch = writer.words(limits);
    std::vector<u32> ids(40), log(80), decision(200);
    const Workspace workspace{ids.data(), 40, log.data(), 80};
    test::launch(size, [&](ThreadTeam& team) {
      decide(team, machine.state, batch.data(), static_cast<u32>(batch.size()), workspace, decision.data());
    });
    const DecisionHeader& header = record_at<DecisionHeader>(decision.data());
    EXPECT(header.stop == kStopBlocks && header.num_admitted == (others_run ? 0u : 1u), "%u members: %u admitted, stop %u", size,
           header.num_admitted, header.stop);
  }
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 400);
  std::vector<u32> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(static_cast<u32>(argument(argc, argv, i, 1)));
  if (sizes.empty()) sizes = {1};
  DecideCoverage all;
  u64 seed = 1;
  for (const u32 size : sizes) {
    for (const MixShape& shape : shapes()) run(shape, size, seed++, steps, all);
    run_broken(size);
    run_known(size);
    run_spared(size);
  }
  for (u32 stop = kNotStopped; stop <= kStopHits; ++stop) EXPECT(all.stops[stop], "no decision ended with %u", stop);
  EXPECT(all.partly_run && all.hits && all.dropped_hits && all.free_hits && all.partial_chunks && all.limited_chunks,
         "a path was never taken");
  EXPECT(all.held_rows && all.longer_rows && all.external && all.contested && all.known && all.evictions && all.facts,
         "a path was never taken");
  EXPECT(all.padded && all.not_padded && all.spared && all.kept && all.ahead, "%llu %llu %llu %llu %llu", wide(all.padded),
         wide(all.not_padded), wide(all.spared), wide(all.kept), wide(all.ahead));
  EXPECT(all.told && all.brought && all.loads, "%llu %llu %llu", wide(all.told), wide(all.brought), wide(all.loads));
  std::printf("decide: %llu entries run, %llu hits, %llu publications (%llu contested, %llu known already), stops "
              "%llu %llu %llu %llu %llu %llu %llu; as the host core\n",
              wide(all.run), wide(all.hits), wide(all.published), wide(all.contested), wide(all.known),
              wide(all.stops[0]), wide(all.stops[1]), wide(all.stops[2]), wide(all.stops[3]), wide(all.stops[4]),
              wide(all.stops[5]), wide(all.stops[6]));
  return 0;
}
