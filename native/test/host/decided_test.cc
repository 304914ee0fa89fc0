// A core whose device decides: it lives as one that decides by itself, whatever happens between its steps and however late
// the device is; nothing changes while a decision is under way; and a device that is lost or wrong is found. Built with the
// thread sanitizer, and with the others.
//
//   decided_test [steps]
#include "../workload/decided_comparison.h"
#include "../support/emulated_device.h"
#include "../support/host_core.h"

using namespace blockstep;
using namespace blockstep::test;

static std::unique_ptr<EmulatedDevice> open_device(const Config& pool, u32 members, const Accidents& accidents = {}) {
  return std::make_unique<EmulatedDevice>(pool, 2, slot_words(pool), members, accidents);
}

static void run(const MixShape& shape, u32 members, u64 seed, u64 steps, DecideCoverage& coverage, u64& preemptions) {
  Twins twins(shape, seed, coverage, open_device(shape.pool, members));
  while (twins.steps() < steps) {
    twins.step();
    if (twins.steps() % 16 == 0) twins.compare_devices();
  }
  twins.compare_devices();
  preemptions += twins.preemptions();
}

/// Prompts so long that a batch is full before the step is: the rest goes in further ones.
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

// ---- One core, and one request at a time.

constexpr u32 kBlockSize = 4;
constexpr u32 kEntries = 4;
constexpr u32 kPending = 4096;

struct Bench {
  explicit Bench(const Accidents& accidents = {}, Authority authority = Authority::kDevice, u32 lookahead = 0)
      : memory(Exchange::words_needed(kPending, 1, kEntries), 0),
        exchange(memory.data(), kPending, kEntries),
        core({{60, 10, 16, 0}, kBlockSize, kEntries, 1, kPending, lookahead, 64, true, Key{7, 9}, authority}, exchange,
             make(accidents), 2) {
    exchange.control(kHeadSlot) = -1;
  }

  std::unique_ptr<Device> make(const Accidents& accidents) {
    auto made = open_device({60, 10, 16, 0}, 0, accidents);
    device = made.get();
    return made;
  }

  u32 add(u32 tokens, std::int32_t first = 0) {
    std::vector<std::int32_t> prompt(tokens);
    for (u32 i = 0; i < tokens; ++i) prompt[i] = first + static_cast<std::int32_t>(i);
    return static_cast<u32>(core.add({prompt.data(), tokens}, u"", u"") % blockstep::kSlotLimit);
  }

  void push(PendingOp op, u32 slot, std::int32_t argument) {
    std::int32_t& n = exchange.control(kNumPending);
    exchange.pending()[2 * n] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange.pending()[2 * n + 1] = argument;
    n += 1;
  }

  static std::vector<std::int32_t> request(const std::vector<RequestAdmission>& admissions) {
    std::vector<std::int32_t> words = {1000, 100, static_cast<std::int32_t>(kUsual), 0, 64,
                                       static_cast<std::int32_t>(admissions.size()), 0, 0};
    for (const RequestAdmission& a : admissions) {
      words.insert(words.end(), {a.slot, a.num_computed, a.num_external, a.num_hits, a.flags});
    }
    return words;
  }

  void submit(const std::vector<std::int32_t>& words, u32 entries = 0) {
    core.submit_decision(0, 0, entries, {words.data(), static_cast<u32>(words.size())});
  }
  void submit(u32 slot) { submit(request({{static_cast<std::int32_t>(slot), 0, 0, -1, 0}})); }

  bool poll() { return core.poll_decision({answer, static_cast<u32>(std::size(answer))}); }
  void wait() {
    while (!poll()) std::this_thread::yield();
  }

  void enter(u32 entry, u32 slot, u32 computed, u32 scheduled) {
    const Frame frame = exchange.frame(0);
    const_cast<std::int32_t*>(frame.slots)[entry] = static_cast<std::int32_t>(slot);
    const_cast<std::int32_t*>(frame.computed)[entry] = static_cast<std::int32_t>(computed);
    const_cast<std::int32_t*>(frame.scheduled)[entry] = static_cast<std::int32_t>(scheduled);
  }

  std::vector<std::int32_t> memory;
  Exchange exchange;
  EmulatedDevice* device = nullptr;
  HostCore core;
  std::int32_t answer[kAnswerHead + 4 * kAnswerAdmission] = {};
};

/// The error that a call throws; the code is "" without one.
template <class Call>
static Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {"", ""};
}

static void expect_error(const Error& error, const char* code, const char* says, const char* what) {
  EXPECT(std::string(error.code) == code && error.message.find(says) != std::string::npos, "%s: %s %s", what, error.code,
         error.message.c_str());
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

/// What is under way is not disturbed: changes are refused, queries see what was before, requests can be added.
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

/// Requests that make no sense, each with what its message says; nothing is asked for, and the next one works.
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
      {std::vector<std::int32_t>(kRequestHead - 1), kBadArg, "request must be at least 8 words long, got 7"},
      {with(kAskTokens, -1), kBadArg, "tokenBudget must be at least 0, got -1"},
      {with(kAskRequests, -2), kBadArg, "requestBudget must be at least 0, got -2"},
      {with(kAskFlags, 8), kBadArg, "flags must be of the bits 1, 2 and 4, got 8"},
      {with(kAskPrefillLimit, -3), kBadArg, "prefillLimit must be at least 0, got -3"},
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
      {with(first + 4, 2), kBadArg, "make no sense: 0, 0, -1 and 2"},
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

/// A running entry looks ahead as far as any request can have room, and not beyond it.
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

/// Facts that would fit into a batch, but not into this one, go ahead as well.
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

/// A device that has refused something before refuses a batch too.
static void test_fault() {
  Bench bench;
  bench.device->machine.state.fault = kRowInUse;
  const u32 slot = bench.add(9);
  expect_error(error_of([&] {
    bench.submit(slot);
    bench.wait();
  }), kMirror, "the device refused batch 1: row is in use", "a fault");
}

/// More facts than a batch has room for, while the device is behind: they go ahead as logs, and the batch behind them.
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

/// A digest that waits in front of the facts is made there, and not behind them.
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

/// What is wrong with a decision, or with its device, poisons the core with a code and with these words.
static void test_accidents() {
  const auto header = [](u32* words) -> DecisionHeader& { return record_at<DecisionHeader>(words); };
  const auto answer = [](u32* words) -> AdmissionAnswer& {
    return record_at<AdmissionAnswer>(words + kWordsOf<DecisionHeader>);
  };
  const auto log = [=](u32* words) { return words + header(words).words - header(words).log_words; };
  const auto tamper = [](std::function<void(u32*)> change) { return Accidents{.tampered = 2, .tamper = change}; };
  struct Case {
    const char* what;
    Accidents accidents;
    const char* code;
    const char* says;
  };
  const char* senseless = "makes no sense";
  const Case cases[] = {
      {"nothing", {}, "", ""},
      {"a launch that fails", {.decide_fails = 2}, kCuda, "launch failed"},
      {"a device that is lost", {.decide_lost = 2}, kCuda, "lost"},
      {"another number", {.decide_wrong_number = 2}, kMirror, "completion of batch 2 is that of batch 3"},
      {"another version", tamper([=](u32* w) { header(w).version = 9; }), kMirror, senseless},
      {"a fault", tamper([=](u32* w) { header(w).fault = 1; }), kMirror, senseless},
      {"an unknown stop", tamper([=](u32* w) { header(w).stop = 77; }), kMirror, senseless},
      {"a stop for no reason", tamper([=](u32* w) { header(w).stop = kStopRows; }), kMirror, senseless},
      {"other words", tamper([=](u32* w) { header(w).words += 1; }), kMirror, senseless},
      {"more entries than there are", tamper([=](u32* w) {
         header(w).num_run = 2, header(w).stop = kStopRunning, header(w).num_answers = header(w).num_admitted = 0;
         header(w).words -= 12;
       }), kMirror, senseless},
      {"all entries with a stop", tamper([=](u32* w) {
         header(w).stop = kStopRunning, header(w).num_answers = header(w).num_admitted = 0;
         header(w).words -= 12;
       }), kMirror, senseless},
      {"fewer entries", tamper([=](u32* w) { header(w).num_run = 0; }), kMirror, senseless},
      {"more answers than admissions", tamper([=](u32* w) { header(w).num_answers = 3; }), kMirror, senseless},
      {"more answers, and as many words", tamper([=](u32* w) {
         header(w).num_answers = header(w).num_admitted = 3, header(w).stop = kStopRows, header(w).words += 6;
       }), kMirror, senseless},
      {"more admitted than answered", tamper([=](u32* w) { header(w).num_admitted = 3; }), kMirror, senseless},
      {"two that were not admitted", tamper([=](u32* w) { header(w).num_admitted = 0, header(w).stop = kStopRows; }),
       kMirror, senseless},
      {"all admitted with a stop", tamper([=](u32* w) { header(w).stop = kStopBudget; }), kMirror, senseless},
      {"fewer admitted", tamper([=](u32* w) { header(w).num_admitted = 1, header(w).stop = kStopRows; }), kMirror,
       "does not name"},
      {"more ids than blocks", tamper([=](u32* w) { header(w).num_ids += 60, header(w).words += 60; }), kMirror, senseless},
      {"a log without an end", tamper([=](u32* w) { header(w).log_words += 1u << 20, header(w).words += 1u << 20; }),
       kMirror, senseless},
      {"another log", tamper([=](u32* w) { log(w)[0] = head_word(Op::kRelease, 1), log(w)[1] = 9; }), kMirror,
       "does not apply"},
      {"another id", tamper([=](u32* w) { (log(w) - header(w).num_ids)[0] += 1; }), kMirror, "other blocks"},
      {"another count", tamper([=](u32* w) { header(w).num_free += 1; }), kMirror, "counts"},
      {"another number of keys", tamper([=](u32* w) { header(w).num_published += 1; }), kMirror, "counts"},
      {"another number of rows", tamper([=](u32* w) { header(w).rows_in_use += 1; }), kMirror, "counts"},
      {"another number of commands", tamper([=](u32* w) { header(w).num_commands[0] += 1; }), kMirror, "counts"},
      {"another digest", tamper([=](u32* w) { header(w).rolling_digest[1] ^= 1; }), kMirror, "rolling digests"},
      {"another row", tamper([=](u32* w) { answer(w).row += 1; }), kMirror, "cannot be admitted"},
      {"more tokens than there are", tamper([=](u32* w) { answer(w).num_tokens = 2; }), kMirror, "cannot be admitted"},
      {"more hits than tokens", tamper([=](u32* w) { answer(w).num_hits = 1u << 30; }), kMirror, "cannot be admitted"},
      {"more hits than full blocks", tamper([=](u32* w) { answer(w).num_hits = 3, answer(w).num_new = 0; }), kMirror,
       "cannot be admitted"},
      {"other new blocks", tamper([=](u32* w) { answer(w).num_new += 1; }), kMirror, "cannot be admitted"},
      {"blocks that are not there", tamper([=](u32* w) { answer(w).num_new += 1, answer(w).num_blocks += 1; }), kMirror,
       "does not hold the 4 blocks"},
      {"a block of another prefix", tamper([=](u32* w) { std::swap(log(w)[5], log(w)[6]); }), kMirror, "another prefix"},
      {"a longer row", tamper([=](u32* w) { log(w)[2] += 1; }), kMirror, "other blocks"},
  };
  for (const Case& test : cases) {
    Bench bench(test.accidents);
    // One that runs on with a new block, and one that finds two blocks of it.
    const u32 first = bench.add(12);
    const Error error = error_of([&] {
      bench.submit(first);
      bench.wait();
      bench.enter(0, first, 12, 1);
      bench.push(PendingOp::kAppend, first, 7);
      const u32 second = bench.add(9);
      const u32 third = bench.add(5, 100);
      bench.submit(Bench::request({{static_cast<std::int32_t>(second), 0, 0, -1, 0},
                                   {static_cast<std::int32_t>(third), 0, 0, -1, 0}}), 1);
      bench.wait();
    });
    expect_error(error, test.code, test.says, test.what);
    if (test.code[0] == 0) {
      EXPECT(bench.answer[kNumRun] == 1 && bench.answer[kAnswerHead + 1] == 2, "%d hits", bench.answer[kAnswerHead + 1]);
      continue;
    }
    EXPECT(bench.exchange.control(kDeciding) == 0, "%s: who waits for it waits for ever", test.what);
    for (const auto& call : {std::function<void()>([&] { bench.core.flush(); }), std::function<void()>([&] { bench.poll(); }),
                             std::function<void()>([&] { bench.submit(first); })}) {
      expect_error(error_of(call), test.code, error.message.c_str(), test.what);
    }
  }
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
