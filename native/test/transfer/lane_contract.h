// Tests of the guarantees of every lane. Every job ends once, and memory agrees with its verdict. A
// lane accesses no memory after a fence, a flush or its end. lane_test.cc and cuda_lane_test.cc run
// them.
#pragma once

#include <algorithm>
#include <thread>

#include "lane_bench.h"

namespace blockstep::test {

/// Random jobs on random lanes. Each target block is in one job at a time, so that its expected
/// content is known.
inline void test_random(const LaneKind& kind, u32 rounds) {
  Random random(3);
  u64 ok = 0;
  u64 cancelled = 0;
  u64 refused = 0;
  for (u32 round = 0; round < rounds; ++round) {
    const u64 piece_bytes = 1 + random.below(6 * kBytes);
    Bench bench(kind, piece_bytes, random, 8 + random.below(20));
    // Source block of each target block; -1: unchanged.
    std::vector<std::int32_t> origin(kBlocks, -1);
    std::vector<bool> busy(kBlocks);
    std::vector<Flying> flying;
    std::int64_t step = -1;
    u64 jobs = 0;
    const auto settle_verdicts = [&] {
      bench.drain();
      std::erase_if(flying, [&](const Flying& one) {
        const u32 verdict = bench.verdict(one.job);
        if (verdict == 0) return false;
        EXPECT(one.not_before <= step || verdict == kCancelled, "job %u ran before step %lld", one.job,
               static_cast<long long>(one.not_before));
        EXPECT(one.cancelled || verdict == kOk, "job %u ended with %u", one.job, verdict);
        for (std::size_t i = 0; i < one.targets.size(); ++i) {
          const auto to = static_cast<u32>(one.targets[i]);
          const auto from = static_cast<u32>(one.sources[i]);
          const bool is_new = holds(*bench.target, to, from, 1);
          const bool is_old = origin[to] < 0 ? holds(*bench.target, to, to, 2)
                                             : holds(*bench.target, to, static_cast<u32>(origin[to]), 1);
          EXPECT(verdict == kOk ? is_new : is_new || is_old, "block %u of job %u", to, one.job);
          if (is_new) origin[to] = one.sources[i];
          busy[to] = false;
        }
        if (verdict == kOk) ++ok;
        else ++cancelled;
        return true;
      });
    };
    for (u32 i = 0; i < 60; ++i) {
      const u32 what = random.below(12);
      if (what < 7) {
        std::vector<std::int32_t> sources;
        std::vector<std::int32_t> targets;
        u32 at = random.below(kBlocks);
        u32 from = random.below(kBlocks);
        for (u32 n = random.below(15); n > 0; --n) {
          if (!busy[at] && std::find(targets.begin(), targets.end(), static_cast<std::int32_t>(at)) == targets.end()) {
            targets.push_back(static_cast<std::int32_t>(at));
            sources.push_back(static_cast<std::int32_t>(from));
          }
          at = random.one_in(4) ? random.below(kBlocks) : (at + 1) % kBlocks;
          from = random.one_in(4) ? random.below(kBlocks) : (from + 1) % kBlocks;
        }
        const std::int64_t not_before = random.one_in(2) ? Lane::kNoFence : step + random.below(3);
        try {
          const u32 job = bench.submit(sources, targets, not_before);
          for (const std::int32_t to : targets) busy[static_cast<u32>(to)] = true;
          flying.push_back({job, sources, targets, not_before, false});
          ++jobs;
        } catch (const Error& error) {
          EXPECT(std::string(error.code) == kRingFull && flying.size() >= bench.ring->capacity(), "%s", error.message.c_str());
          ++refused;
        }
      } else if (what == 7) {
        bench.lane->settle(++step);
      } else if (what == 8 && !flying.empty()) {
        Flying& one = flying[random.below(flying.size())];
        one.cancelled = bench.lane->cancel(one.job) || one.cancelled;
      } else if (what == 9 && !flying.empty()) {
        std::vector<std::int32_t> some;
        for (const Flying& one : flying) {
          if (one.not_before <= step && random.one_in(2)) some.push_back(static_cast<std::int32_t>(one.job));
        }
        bench.flush(some);
        settle_verdicts();
        for (const Flying& one : flying) {
          EXPECT(std::find(some.begin(), some.end(), static_cast<std::int32_t>(one.job)) == some.end(),
                 "job %u was flushed", one.job);
        }
      } else if (what == 10 && random.one_in(4)) {
        bench.lane->fence();
        for (Flying& one : flying) one.cancelled = true;
        settle_verdicts();
        EXPECT(flying.empty() && bench.lane->pending() == 0, "%zu jobs after a fence", flying.size());
      } else {
        settle_verdicts();
      }
    }
    for (Flying& one : flying) one.cancelled = true;
    bench.lane.reset();
    settle_verdicts();
    EXPECT(flying.empty() && bench.ring->in_flight() == 0, "%zu jobs after the lane's end", flying.size());
    for (u32 block = 0; block < kBlocks; ++block) {
      if (origin[block] < 0) EXPECT(holds(*bench.target, block, block, 2), "block %u was written", block);
    }
  }
  EXPECT(ok > rounds && cancelled > rounds && (refused > 0 || rounds < 40), "%llu ok, %llu cancelled, %llu refused", wide(ok),
         wide(cancelled), wide(refused));
}

/// A job waits for its step, and others overtake it. Jobs of one lane that wait for no step keep
/// their order.
inline void test_order(const LaneKind& kind) {
  Random random(11);
  Bench bench(kind, kBytes, random);
  const u32 later = bench.submit({1}, {50}, 5);
  const u32 sooner = bench.submit({2}, {50}, 3);
  const u32 now = bench.submit({3}, {51});
  const u32 then = bench.submit({4}, {51});
  bench.flush({static_cast<std::int32_t>(now), static_cast<std::int32_t>(then)});
  EXPECT(bench.verdict(now) == kOk && bench.verdict(then) == kOk, "they wait for nothing");
  EXPECT(holds(*bench.target, 51, 4, 1), "the second one came second");
  EXPECT(holds(*bench.target, 50, 50, 2) && bench.lane->waiting() == 2, "two wait");
  bench.lane->settle(4);
  bench.flush({static_cast<std::int32_t>(sooner)});
  EXPECT(holds(*bench.target, 50, 2, 1) && bench.lane->waiting() == 1, "step 3 is settled");
  const auto job = static_cast<std::int32_t>(later);
  EXPECT(bench.code_of([&] { bench.flush({job}); }) == std::string(kBadArg), "a flush that could never end");
  EXPECT(bench.code_of([&] { bench.flush({static_cast<std::int32_t>(now), job}); }) == std::string(kBadArg), "nor this");
  bench.lane->settle(2);  // after a later step was settled: it changes nothing
  const u32 at_once = bench.submit({6}, {52}, 4);
  bench.flush({static_cast<std::int32_t>(at_once)});
  bench.lane->settle(100);
  bench.flush({job});
  EXPECT(bench.verdict(later) == kOk && holds(*bench.target, 50, 1, 1), "step 5 is settled");
  // Ready together: by step, then by submission.
  bench.submit({7}, {60}, 201);
  bench.submit({8}, {60}, 202);
  bench.submit({9}, {60}, 200);
  bench.submit({10}, {61}, 201);
  const u32 last = bench.submit({11}, {61}, 201);
  bench.lane->settle(300);
  bench.flush({static_cast<std::int32_t>(last)});
  bench.lane->fence();
  EXPECT(holds(*bench.target, 60, 8, 1) && holds(*bench.target, 61, 11, 1), "the order of steps");
}

inline void test_runs(const LaneKind& kind) {
  Random random(12);
  Bench bench(kind, 1u << 20, random);
  const auto copies_of = [&](const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& targets) {
    const Lane::Traffic before = bench.lane->traffic();
    bench.flush({static_cast<std::int32_t>(bench.submit(sources, targets))});
    const Lane::Traffic after = bench.lane->traffic();
    EXPECT(after.bytes - before.bytes == sources.size() * kBytes, "%llu bytes", wide(after.bytes - before.bytes));
    bench.drain();
    return after.copies - before.copies;
  };
  EXPECT(copies_of({1, 2, 3, 4}, {5, 6, 7, 8}) == 1, "consecutive on both sides");
  EXPECT(copies_of({1, 2, 3, 4}, {5, 6, 8, 9}) == 2, "a gap in the target");
  EXPECT(copies_of({1, 2, 4, 5}, {5, 6, 7, 8}) == 2, "a gap in the source");
  EXPECT(copies_of({4, 3, 2, 1}, {8, 7, 6, 5}) == 4, "backwards");
  EXPECT(copies_of({1, 1, 1}, {5, 6, 7}) == 3, "one block to three");
  Bench cut(kind, 3 * kBytes + 1, random);
  cut.flush({static_cast<std::int32_t>(cut.submit({1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}))});
  EXPECT(cut.lane->traffic().copies == 3, "pieces of three blocks: %llu", wide(cut.lane->traffic().copies));
  for (u32 block = 0; block < kBlocks; ++block) {
    EXPECT(cut.target->arrivals(block) == (block >= 1 && block <= 7), "what came is counted: block %u", block);
  }
}

inline void test_refusals(const LaneKind& kind) {
  Random random(13);
  Bench bench(kind, kBytes, random, 2);
  const auto refused = [&](const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& targets) {
    EXPECT(bench.code_of([&] { bench.submit(sources, targets); }) == std::string(kBadArg), "%zu blocks", sources.size());
  };
  refused({}, {1});
  refused({1}, {});
  refused({1}, {1, 2});
  refused({-1}, {1});
  refused({1}, {-1});
  refused({kBlocks}, {1});
  refused({1}, {kBlocks});
  refused({1, 2}, {3, 3});
  bench.submit({1}, {1}, 9);
  bench.submit({2}, {2}, 9);
  EXPECT(bench.code_of([&] { bench.submit({3}, {3}); }) == std::string(kRingFull), "two slots");
  EXPECT(!bench.lane->cancel(0) && !bench.lane->cancel(3) && !bench.lane->cancel(0xffffffff), "no jobs of this lane");
  EXPECT(bench.lane->cancel(1) && !bench.lane->cancel(1), "once");
  EXPECT(bench.verdict(1) == kCancelled, "cancelled");
  const u32 again = bench.submit({3}, {3});
  bench.flush({static_cast<std::int32_t>(again), 12345});
  EXPECT(bench.verdict(again) == kOk && holds(*bench.target, 3, 3, 1), "what was refused took nothing");
  const auto code = [&](std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target) {
    return bench.code_of([&] { kind.make(bench.ring, source, target, 1, random); });
  };
  EXPECT(code(bench.source, bench.source) == std::string(kBadArg), "one arena");
  EXPECT(code(bench.source, kind.make_target(4, kBytes + 16)) == std::string(kBadArg), "blocks of two sizes");
}

/// A job without blocks has its place in the order, and waits, ends and is cancelled like any
/// other. It accesses no memory.
inline void test_empty(const LaneKind& kind) {
  Random random(14);
  Bench bench(kind, kBytes, random);
  const u32 first = bench.submit({1}, {1});
  const u32 empty = bench.submit({}, {});
  bench.flush({static_cast<std::int32_t>(empty)});
  EXPECT(bench.verdict(empty) == kOk, "it ended with %u", bench.verdict(empty));
  EXPECT(bench.verdict(first) == kOk && holds(*bench.target, 1, 1, 1), "the one in front is over");
  const u32 waits = bench.submit({}, {}, 3);
  const u32 dropped = bench.submit({}, {}, 3);
  const u32 fenced = bench.submit({}, {}, 4);
  EXPECT(bench.lane->waiting() == 3 && bench.verdict(waits) == 0, "they wait");
  EXPECT(bench.lane->cancel(dropped) && !bench.lane->cancel(dropped), "once");
  bench.lane->settle(3);
  bench.flush({static_cast<std::int32_t>(waits)});
  EXPECT(bench.verdict(waits) == kOk && bench.verdict(dropped) == kCancelled, "step 3 is settled");
  bench.lane->fence();
  EXPECT(bench.verdict(fenced) == kCancelled && bench.lane->pending() == 0, "it ended with %u", bench.verdict(fenced));
  EXPECT(bench.lane->traffic().bytes == kBytes && bench.lane->traffic().copies == 1, "nothing was copied for them");
  for (u32 block = 0; block < kBlocks; ++block) EXPECT(bench.target->arrivals(block) == (block == 1), "block %u", block);
}

/// After the ring is closed no job begins. Jobs that have begun end.
inline void test_closed(const LaneKind& kind) {
  Random random(15);
  Bench bench(kind, kBytes, random);
  const u32 waits = bench.submit({1}, {1}, 3);
  bench.ring->close();
  EXPECT(bench.code_of([&] { bench.submit({2}, {2}); }) == std::string(kDisposed), "a job that nobody could drain");
  EXPECT(bench.code_of([&] { bench.submit({}, {}); }) == std::string(kDisposed), "a job that nobody could drain");
  EXPECT(bench.lane->pending() == 1 && bench.ring->in_flight() == 1, "what was refused took nothing");
  bench.lane->settle(3);
  bench.flush({static_cast<std::int32_t>(waits)});
  bench.lane->fence();
  EXPECT(bench.verdict(waits) == kOk && holds(*bench.target, 1, 1, 1), "it ended with %u", bench.verdict(waits));
  EXPECT(holds(*bench.target, 2, 2, 2), "block 2 was written");
}

/// After a fence, or after a lane's end, the owner writes the memory. ThreadSanitizer sees any
/// other access.
inline void test_fence(const LaneKind& kind, u32 rounds) {
  Random random(5);
  for (u32 round = 0; round < rounds; ++round) {
    const u64 piece_bytes = kBytes * (1 + random.below(4));
    Bench bench(kind, piece_bytes, random);
    std::vector<std::int32_t> all(kBlocks);
    for (u32 i = 0; i < kBlocks; ++i) all[i] = static_cast<std::int32_t>(i);
    std::vector<u32> jobs;
    for (u32 i = random.below(8); i > 0; --i) jobs.push_back(bench.submit(all, all, random.one_in(3) ? 7 : -1));
    if (random.one_in(2)) std::this_thread::yield();
    if (random.one_in(2) && !jobs.empty()) bench.lane->cancel(jobs[random.below(jobs.size())]);
    if (random.one_in(2)) bench.lane->fence();
    else bench.lane.reset();
    for (u32 block = 0; block < kBlocks; ++block) {
      fill(*bench.target, block, 3);
      fill(*bench.source, block, 4);
    }
    if (bench.lane) {
      bench.lane->settle(9);
      bench.lane->fence();
    }
    for (u32 block = 0; block < kBlocks; ++block) EXPECT(holds(*bench.target, block, block, 3), "block %u", block);
    for (const u32 job : jobs) EXPECT(bench.verdict(job) != 0, "job %u has no verdict", job);
  }
}

/// Two lanes in opposite directions, and one ring.
inline void test_two_lanes(const LaneKind& kind, u32 rounds) {
  Random random(17);
  Bench bench(kind, 5 * kBytes, random);
  const std::unique_ptr<Lane> back = kind.make(bench.ring, bench.target, bench.source, kBytes, random);
  for (u32 round = 0; round < rounds; ++round) {
    const u32 there = bench.submit({1, 2, 3}, {10, 11, 12});
    bench.flush({static_cast<std::int32_t>(there)});
    const std::int32_t from[] = {10, 11, 12};
    const std::int32_t to[] = {1, 2, 3};
    const u32 job = back->submit({from, 3}, {to, 3}, Lane::kNoFence);
    EXPECT(!bench.lane->cancel(job), "the other lane's");
    const auto number = static_cast<std::int32_t>(job);
    back->flush({&number, 1});
    EXPECT(bench.verdict(there) == kOk && bench.verdict(job) == kOk, "both");
  }
  for (u32 block = 1; block < 4; ++block) EXPECT(holds(*bench.source, block, block, 1), "block %u", block);
}

inline void test_contract(const LaneKind& kind, u32 rounds) {
  test_order(kind);
  test_runs(kind);
  test_refusals(kind);
  test_empty(kind);
  test_closed(kind);
  test_fence(kind, rounds);
  test_two_lanes(kind, rounds);
  test_random(kind, rounds);
}

}  // namespace blockstep::test
