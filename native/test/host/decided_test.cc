// A core whose device decides behaves like a core that decides itself, whatever happens between its
// steps and however late the device is. Nothing changes while a decision is pending. A lost or
// wrong device is detected. Built with the thread sanitizer, and with the others.
//
//   decided_test [steps]
#include "decided_accidents.h"
#include "decided_bench.h"

using namespace blockstep;
using namespace blockstep::test;

static void run(const MixShape& shape, u32 members, u64 seed, u64 steps, DecideCoverage& coverage, u64& preemptions) {
  Twins twins(shape, seed, coverage, open_device(shape.pool, members));
  while (twins.steps() < steps) {
    twins.step();
    if (twins.steps() % 16 == 0) twins.compare_devices();
  }
  twins.compare_devices();
  preemptions += twins.preemptions();
}

/// Prompts so long that a batch is full before the step is complete. Further batches take the rest.
static void test_full_batches() {
  constexpr u64 kSteps = 60;
  const MixShape& shape = (std::end(kDecidedSetups) - 1)->shape;
  DecideCoverage coverage;
  auto device = open_device(shape.pool, 0);
  EmulatedDevice& opened = *device;
  Twins twins(shape, 77, coverage, std::move(device));
  while (twins.steps() < kSteps) twins.step();
  twins.compare_devices();
  EXPECT(twins.cuts() > twins.running_cuts() && twins.running_cuts() != 0, "%llu batches were full in %llu steps",
         wide(twins.cuts()), wide(kSteps));
  for (const u32 carried : opened.decided) EXPECT(carried != 0, "a carrier was never taken");
}

/// Each call belongs to one authority.
static void test_authority() {
  Bench device;
  expect_error(error_of([&] { device.core.run(0, 0, 0); }), kAuthority, "run", "run");
  expect_error(error_of([&] { device.core.admit(0, 0, 0, 0, 0); }), kAuthority, "admit", "admit");
  expect_error(error_of([&] { device.poll(); }), kBadArg, "no decision is under way", "poll");
  Bench host({}, Authority::kHost);
  expect_error(error_of([&] { host.submit(host.add(5)); }), kAuthority, "submitDecision", "submit");
  expect_error(error_of([&] { host.poll(); }), kAuthority, "pollDecision", "poll");
}

/// A pending decision is not disturbed: changes are refused, queries see the earlier state, and
/// requests can be added.
static void test_under_way() {
  Bench bench;
  const u32 first = bench.add(9);
  bench.submit(first);
  bench.wait();
  EXPECT(bench.answer[kAnswerStop] == kNotStopped && bench.answer[kNumAdmitted] == 1, "%d", bench.answer[kAnswerStop]);
  EXPECT(bench.exchange.control(kRowsInUse) == 1 && bench.exchange.control(kFreeBlocks) == 56, "old counts");
  bench.exchange.control(kHeadSlot) = static_cast<std::int32_t>(first);
  bench.core.make_device_tables(16);
  const u32 second = bench.add(9);
  const u64 digest = bench.core.digest();
  bench.device->allow(0);
  bench.submit(second);
  EXPECT(bench.exchange.control(kDeciding) == 1, "nobody would know");
  const std::int32_t id = 1;
  const Span<const std::int32_t> ids{&id, 1};
  const std::pair<const char*, std::function<void()>> changes[] = {
      {"pin", [&] { bench.core.pin(ids); }},
      {"unpin", [&] { bench.core.unpin(ids); }},
      {"evict", [&] { bench.core.evict(ids); }},
      {"reset", [&] { bench.core.reset(); }},
      {"flush", [&] { bench.core.flush(); }},
      {"record", [&] { bench.core.record(true); }},
      {"submit", [&] { bench.core.submit({}); }},
      {"start_mirror_digest", [&] { bench.core.start_mirror_digest(); }},
      {"gather_on_device", [&] { bench.core.gather_on_device(0, 0, {}); }},
      {"submit_decision", [&] { bench.submit(second); }},
  };
  for (const auto& [what, change] : changes) expect_error(error_of(change), kDecisionPending, "under way", what);
  const u32 third = bench.add(5, 100);
  bench.push(PendingOp::kClose, first, 0);
  EXPECT(!bench.poll() && bench.core.digest() == digest && bench.core.handle(first) != 0, "something has changed");
  EXPECT(bench.core.match(second, 2) == 2, "the first is not there");
  bench.core.verify();
  std::int32_t small[kAnswerHead];
  expect_error(error_of([&] { bench.core.poll_decision({small, kAnswerHead}); }), kBadArg, "at least 14 words", "poll");
  bench.device->allow(~u64{0});
  bench.wait();
  EXPECT(bench.exchange.control(kDeciding) == 0 && bench.exchange.control(kNumPending) == 1, "it is still under way");
  EXPECT(bench.exchange.control(kCommonPrefix) == 2, "%d blocks in common", bench.exchange.control(kCommonPrefix));
  EXPECT(bench.core.handle(first) == 0 && bench.exchange.control(kRowsInUse) == 1, "what was pending is lost");
  EXPECT(bench.core.num_tokens(third) == 5, "another request");
  bench.core.verify();
}

/// Inconsistent requests, each with its error message. No batch is sent, and the next request
/// works.
static void test_refusals() {
  Bench bench;
  const u32 a = bench.add(9);
  const u32 held = bench.add(9, 50);
  bench.submit(held);
  bench.wait();
  const u64 digest = bench.core.digest();
  const auto slot = static_cast<std::int32_t>(a);
  const auto other = static_cast<std::int32_t>(held);
  const std::vector<std::int32_t> good = Bench::request({{slot, 0, 0, -1, 0}});
  const auto with = [&](u32 at, std::int32_t value) {
    std::vector<std::int32_t> words = good;
    words[at] = value;
    return words;
  };
  struct Case {
    std::vector<std::int32_t> words;
    const char* code;
    const char* says;
  };
  const u32 first = kRequestHead;
  const Case cases[] = {
      {std::vector<std::int32_t>(kRequestHead - 1), kBadArg, "request must be at least 12 words long, got 11"},
      {with(kAskTokens, -1), kBadArg, "tokenBudget must be at least 0, got -1"},
      {with(kAskRequests, -2), kBadArg, "requestBudget must be at least 0, got -2"},
      {with(kAskFlags, 32), kBadArg, "flags must be of the bits 1, 2, 4, 8 and 16, got 32"},
      {with(kAskPrefillLimit, -3), kBadArg, "prefillLimit must be at least 0, got -3"},
      {with(kAskDraftSlots, -1), kBadArg, "draftSlots must be from 0 to 65536, got -1"},
      {with(kAskPadding, 65537), kBadArg, "padding must be from 0 to 65536, got 65537"},
      {with(kAskSpareBlocks, 61), kBadArg, "spareBlocks must be from 0 to 60, got 61"},
      {with(kAskKeptBlocks, -2), kBadArg, "keptBlocks must be from 0 to 60, got -2"},
      {with(kAskSlotLimit, 0), kBadArg, "slotLimit must be from 1 to maxModelLen (64), got 0"},
      {with(kAskSlotLimit, 65), kBadArg, "slotLimit must be from 1 to maxModelLen (64), got 65"},
      {with(kAskAdmissions, 2), kBadArg, "numAdmissions must be from 0 to the 1 that are there, got 2"},
      {with(kAskAdmissions, -1), kBadArg, "numAdmissions must be from 0 to the 1 that are there, got -1"},
      {with(first, 77), kBadSlot, "slot 77 in admission 0 is not open"},
      {with(first, -1), kBadSlot, "slot -1 in admission 0 is not open"},
      {with(kAskSlotLimit, 8), kBadArg, "9 tokens, which is above slotLimit (8)"},
      {with(first + 1, 9), kBadArg, "make no sense: 9, 0, -1 and 0"},
      {with(first + 1, -1), kBadArg, "make no sense: -1"},
      {with(first + 2, 3), kBadArg, "make no sense: 0, 3"},
      {with(first + 2, -3), kBadArg, "make no sense: 0, -3"},
      {with(first + 3, -2), kBadArg, "make no sense: 0, 0, -2"},
      {with(first + 4, 4), kBadArg, "make no sense: 0, 0, -1 and 4"},
      {with(first + 4, 1), kBadArg, "make no sense: 0, 0, -1 and 1"},
      {Bench::request({{slot, 0, 0, -1, 0}, {slot, 0, 0, -1, 0}}), kBadArg, "is asked for twice"},
      {Bench::request({{other, 0, 0, 1, 0}}), kBadArg, "make no sense: 0, 0, 1 and 0"},
  };
  for (const Case& test : cases) expect_error(error_of([&] { bench.submit(test.words); }), test.code, test.says, test.says);
  expect_error(error_of([&] { bench.core.submit_decision(0, 1, 0, {good.data(), static_cast<u32>(good.size())}); }), kBadArg,
               "from must not be above to, got 1 and 0", "from and to");
  bench.enter(0, held, 9, 1);
  const auto again = Bench::request({{other, 9, 0, -1, 0}});
  bench.push(PendingOp::kAppend, held, 1);
  expect_error(error_of([&] { bench.submit(again, 1); }), kBadArg, "is asked for twice", "a slot of the frame");
  bench.enter(0, a, 0, 9);
  expect_error(error_of([&] { bench.submit(good, 1); }), kNoRow, "holds no row", "an entry without a row");
  bench.enter(0, 99, 0, 9);
  expect_error(error_of([&] { bench.submit(good, 1); }), kBadSlot, "in entry 0", "an entry without a slot");
  EXPECT(bench.core.digest() == digest && bench.exchange.control(kDeciding) == 0, "something was asked for");
  bench.enter(0, held, 9, 1);
  bench.submit(good, 1);
  bench.wait();
  EXPECT(bench.answer[kNumRun] == 1 && bench.answer[kNumAdmitted] == 1, "%d admitted", bench.answer[kNumAdmitted]);
}

/// A running entry looks ahead at most as far as any request can have room.
static void test_slot_limit() {
  Bench bench({}, Authority::kDevice, 8);
  const u32 slot = bench.add(9);
  bench.submit(slot);
  bench.wait();
  bench.push(PendingOp::kAppend, slot, 3);
  bench.enter(0, slot, 9, 1);
  std::vector<std::int32_t> request = Bench::request({});
  request[kAskSlotLimit] = 16;
  bench.submit(request, 1);
  bench.wait();
  EXPECT(bench.exchange.frame(0).num_blocks[0] == 4, "%d blocks", bench.exchange.frame(0).num_blocks[0]);
}

/// Facts that would fit into an empty batch, but not into this batch, also go ahead.
static void test_full_facts() {
  Bench bench;
  const u32 slot = bench.add(9);
  const u32 room = decision_room({60, 10, 16, 0}).batch_words;
  std::vector<std::int32_t> ids(room - 20, 1);
  bench.core.pin({ids.data(), static_cast<u32>(ids.size())});
  bench.submit(slot);
  bench.wait();
  EXPECT(bench.device->carried[static_cast<u32>(Carrier::kSlot)] == 1 && bench.device->decided[0] == 1, "%u batches",
         bench.device->decided[0]);
}

/// A device that has already refused a batch refuses the next batch too.
static void test_fault() {
  Bench bench;
  bench.device->machine.state.fault = kRowInUse;
  const u32 slot = bench.add(9);
  expect_error(error_of([&] {
    bench.submit(slot);
    bench.wait();
  }), kMirror, "the device refused batch 1: row is in use", "a fault");
}

/// More facts than a batch has room for, while the device is behind: they go ahead as logs,
/// followed by the batch.
static void test_facts_ahead() {
  Bench bench;
  const u32 slot = bench.add(9);
  bench.device->allow(0);
  std::vector<std::int32_t> ids(30000, 1);
  const Span<const std::int32_t> many{ids.data(), static_cast<u32>(ids.size())};
  for (u32 i = 0; i < 12; ++i) bench.core.pin(many);
  for (u32 i = 0; i < 12; ++i) bench.core.unpin(many);
  bench.submit(slot);
  for (u32 i = 0; i < 50; ++i) EXPECT(!bench.poll(), "a decision of a device that does nothing");
  EXPECT(bench.device->decided[0] == 0, "the batch overtook what comes before it");
  bench.device->allow(~u64{0});
  bench.wait();
  EXPECT(bench.answer[kNumAdmitted] == 1 && bench.device->decided[0] == 1, "%d admitted", bench.answer[kNumAdmitted]);
  bench.core.start_mirror_digest();
  while (!bench.core.mirror_digest()) std::this_thread::yield();
}

/// A slow device is queried every 2 ms, because a query disturbs its work.
static void test_slow() {
  Bench bench;
  const u32 slot = bench.add(9);
  bench.device->allow(0);
  bench.submit(slot);
  const u32 before = bench.device->checks;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
  u32 polls = 0;
  for (; polls < 1000 || passed() < 3 * kCheckInterval; ++polls) EXPECT(!bench.poll(), "a decision of a device that does nothing");
  // A busy machine may have stopped the thread from its last poll until all this time had passed.
  EXPECT(!bench.poll(), "a decision of a device that does nothing");
  const auto most = static_cast<u32>(passed() / kCheckInterval) + 1;
  const u32 checks = bench.device->checks - before;
  EXPECT(checks > 0 && checks <= most, "asked %u times in %u polls, at most %u are due", checks, polls, most);
  bench.device->allow(~u64{0});
  bench.wait();
}

/// A digest that waits before the facts is computed there, not after them.
static void test_digest_ahead() {
  Bench bench;
  const u32 slot = bench.add(9);
  bench.device->allow(0);
  const std::int32_t id = 1;
  for (u32 i = 0; i < 3; ++i) {
    bench.core.pin({&id, 1});
    bench.core.submit({});
  }
  bench.core.start_mirror_digest();
  const u64 then = bench.core.digest();
  bench.core.pin({&id, 1});
  bench.submit(slot);
  bench.device->allow(~u64{0});
  bench.wait();
  while (!bench.core.poll()) std::this_thread::yield();
  EXPECT(bench.core.mirror_digest() == then && bench.core.digest() != then, "a digest of another state");
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 300);
  test_authority();
  test_under_way();
  test_refusals();
  test_slot_limit();
  test_fault();
  test_full_facts();
  test_facts_ahead();
  test_slow();
  test_digest_ahead();
  test_accidents();
  test_full_batches();
  DecideCoverage all;
  u64 preemptions = 0, seed = 1;
  for (const u32 members : {0u, 3u}) {
    for (const DecidedSetup& setup : kDecidedSetups) {
      if (setup.shape.pool.num_blocks < 1000) run(setup.shape, members, seed++, steps, all, preemptions);
    }
  }
  for (u32 stop = kNotStopped; stop <= kStopHits; ++stop) EXPECT(all.stops[stop], "no step ended with %u", stop);
  EXPECT(all.told && all.brought && all.loads && all.held_rows && all.external && preemptions, "a path was never taken");
  std::printf("decided: %llu entries run, %llu hits, %llu preemptions; the device as the host; its accidents poison\n",
              wide(all.run), wide(all.hits), wide(preemptions));
  return 0;
}
