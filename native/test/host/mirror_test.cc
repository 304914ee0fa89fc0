// The mirror over an emulated device: appended logs arrive in order, once, and within the bound,
// however late the device is. Errors of the device are detected. Built with the thread sanitizer,
// and with the others.
#include "mirror_pair.h"
#include "self_test_cases.h"

using namespace blockstep;
using namespace blockstep::test;

/// Random work, random delays. Everything is compared after the device has caught up, and sometimes
/// earlier.
static u64 run(const Shape& shape, u32 words, u32 members, u64 seed, u64 steps, u32 (&carried)[3]) {
  Pair pair(config_of(shape), words, members);
  Workload workload(shape, seed);
  u64 digests = 0;
  for (u64 step = 0; step < steps; ++step) {
    // The device is held for some steps, so that logs join. Then it takes a few at a time, or all.
    if (workload.random.one_in(40)) pair.device->allow(workload.random.below(3));
    if (workload.random.one_in(30)) pair.device->allow(~u64{0});
    for (u32 n = 1 + workload.random.below(4); n != 0; --n) {
      Log log;
      std::vector<u32> taken;
      workload.step(log, taken);
      pair.apply(log);
      if (workload.random.one_in(8)) pair.mirror.poll();
    }
    if (!workload.random.one_in(8)) pair.mirror.submit();
    if (workload.random.one_in(40) && !pair.mirror.digest_pending()) {
      digests += 1;
      pair.mirror.start_digest(digest(pair.host.state));
    }
  }
  pair.device->allow(~u64{0});
  pair.mirror.submit();
  pair.settle();
  EXPECT(pair.mirror.waiting_words() == 0, "%llu words left", wide(pair.mirror.waiting_words()));
  pair.mirror.start_digest(digest(pair.host.state));
  pair.settle();
  EXPECT(pair.mirror.digest() == digest(pair.host.state), "no digest");
  EXPECT(digests != 0 && pair.device->most_outstanding == kDepth, "the device was never behind");
  expect_equal(pair.device->machine.state, workload.model, steps);
  const char* broken = verify(pair.device->machine.state);
  EXPECT(broken == nullptr, "%s", broken);
  for (u32 i = 0; i < 3; ++i) carried[i] += pair.device->carried[i];
  return pair.mirror.logs();
}

/// A device that keeps up gets exactly one log for each step with commands, and none before the
/// step's end.
static void test_one_launch_a_step() {
  Pair pair({40, 8, 16, 0}, kSlotWords, 0);
  for (u32 row = 0; row < 8; ++row) {
    pair.apply(open_rows(row, 1));
    Log log;
    log.add(Op::kExtend, 1, {row, 2});
    pair.apply(log);
    pair.mirror.poll();
    EXPECT(pair.mirror.logs() == row, "%llu logs before the end of step %u", wide(pair.mirror.logs()), row);
    pair.mirror.submit();
    pair.mirror.submit();
    EXPECT(pair.mirror.logs() == row + 1, "%llu logs after step %u", wide(pair.mirror.logs()), row);
    pair.settle();
  }
}

/// A device that has not answered gets no further log. Logs joined meanwhile are sent as one log.
static void test_bound() {
  Pair pair({40, 32, 16, 0}, kSlotWords, 0);
  pair.device->allow(0);
  for (u32 row = 0; row < 20; ++row) {
    pair.apply(open_rows(row, 1));
    pair.mirror.submit();
    EXPECT(pair.mirror.outstanding() == std::min(row + 1, kDepth), "%u outstanding", pair.mirror.outstanding());
  }
  EXPECT(pair.mirror.waiting_words() == (20 - kDepth) * 2, "%llu words", wide(pair.mirror.waiting_words()));
  EXPECT(pair.device->checks != 0, "a device that is behind was never asked whether it is there");
  // Every 2 ms, because a query disturbs the device's work.
  const u32 before = pair.device->checks;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
  for (u32 polls = 0; polls < 1000 || passed() < 3 * kCheckInterval; ++polls) pair.mirror.poll();
  // A busy machine may have stopped the thread from its last poll until all this time had passed.
  pair.mirror.poll();
  const u32 checks = pair.device->checks - before;
  const auto most = static_cast<u32>(passed() / kCheckInterval) + 1;
  EXPECT(checks > 0 && checks <= most, "asked %u times, at most %u are due", checks, most);
  pair.device->allow(1);
  while (pair.mirror.logs() == kDepth) pair.mirror.poll();
  EXPECT(pair.mirror.waiting_words() == 0, "what waited did not go out together");
  pair.device->allow(~u64{0});
  pair.settle();
  EXPECT(pair.mirror.logs() == kDepth + 1, "%llu logs", wide(pair.mirror.logs()));
}

/// Words that fill a slot are sent at once. A log of the host that is longer than a slot is cut
/// between commands. A longer single command is refused.
static void test_cut() {
  Pair pair({40, 32, 16, 0}, 8, 0);
  pair.apply(open_rows(0, 3));  // 6 words
  EXPECT(pair.mirror.logs() == 0, "%llu logs", wide(pair.mirror.logs()));
  pair.apply(open_rows(3, 11));  // 22 words: the first mark cuts at 6, then 4 commands to a log
  EXPECT(pair.mirror.logs() == kDepth, "a full slot waits for the end of the step");
  pair.mirror.submit();
  pair.settle();
  EXPECT(pair.mirror.logs() == 4, "%llu logs", wide(pair.mirror.logs()));
  Log log;
  log.add(Op::kPin, 8, {1, 2, 3, 4, 5, 6, 7, 8});
  std::string message;
  const std::string code = code_of([&] { pair.apply(log); pair.mirror.submit(); }, message);
  EXPECT(code == kMirror && message.find("9 words") != std::string::npos, "%s: %s", code.c_str(), message.c_str());
}

/// Logs join only while the device has room for their ids: blocks may be taken and given back
/// often.
static void test_room_for_ids() {
  Pair pair({40, 32, 39, 0}, kSlotWords, 0);
  pair.device->allow(0);
  for (u32 turn = 0; turn < 9; ++turn) {
    pair.apply(open_rows(0, 1));
    Log log;
    log.add(Op::kExtend, 1, {0, 20});
    log.add(Op::kRelease, 1, {0});
    pair.apply(log);
    pair.mirror.submit();
  }
  pair.device->allow(~u64{0});
  pair.settle();
  EXPECT(pair.mirror.logs() == kDepth + 3, "%llu logs", wide(pair.mirror.logs()));  // two turns take 40 ids
}

/// A log uses the smallest carrier that fits, to the word.
static void test_carriers() {
  const std::pair<u32, Carrier> cases[] = {{kSmallWords, Carrier::kSmall},
                                           {kSmallWords + 1, Carrier::kLarge},
                                           {kLargeWords, Carrier::kLarge},
                                           {kLargeWords + 1, Carrier::kSlot}};
  for (const auto& [words, carrier] : cases) {
    Pair pair({40, 8, 16, 0}, kSlotWords, 0);
    Log log;
    log.add(Op::kPin, words - 1, std::vector<u32>(words - 1, 7));
    pair.apply(log);
    pair.mirror.submit();
    pair.settle();
    EXPECT(pair.device->carried[static_cast<u32>(carrier)] == 1, "%u words went another way", words);
  }
}

/// If a device is lost with its last log, the next wait detects it.
static void test_lost_at_the_end() {
  Pair pair({40, 8, 16, 0}, kSlotWords, 0, {.lost = 1});
  pair.apply(open_rows(0, 1));
  pair.mirror.submit();
  std::string message;
  const std::string code = code_of([&] {
    for (u32 polls = 0; polls < 1000000; ++polls) pair.mirror.poll();
  }, message);
  EXPECT(code == kCuda, "nothing was found");
}

static void test_streams() {
  Pair pair({40, 8, 16, 0}, kSlotWords, 0);
  pair.apply(open_rows(0, 1));
  pair.mirror.submit(u64{77});
  EXPECT(pair.device->followed == std::vector<u64>{77} && pair.device->led == std::vector<u64>{77}, "not ordered");
  pair.mirror.submit();
  EXPECT(pair.device->followed.size() == 1, "ordered without being asked");
  pair.settle();
}

/// Each accident is reported as an error with the right code, within a number of polls, and only as
/// that.
static void test_accidents() {
  struct Case {
    const char* what;
    Accidents accidents;
    const char* code;
    const char* says;
  };
  const Case cases[] = {
      {"nothing", {}, "", ""},
      {"a launch that fails", {.launch_fails = 3}, kCuda, "launch failed"},
      {"a device that is lost", {.lost = 3}, kCuda, "lost"},
      {"another rolling digest", {.wrong_digest = 3}, kMirror, "results differ after log 3"},
      {"another number", {.wrong_number = 3}, kMirror, "belongs to another"},
      {"another log", {.damaged = 3}, kMirror, "malformed command"},
      {"another state", {.state_damaged = 3}, kMirror, "state differs"},
  };
  for (const Case& test : cases) {
    for (const bool keeps_up : {true, false}) {
      Pair pair({40, 32, 16, 0}, kSlotWords, 0, test.accidents);
      if (!keeps_up) pair.device->allow(2);
      std::string message;
      const std::string code = code_of([&] {
        for (u32 row = 0; row < 16; ++row) {
          pair.apply(open_rows(row, 1));
          pair.mirror.submit();
          for (u32 i = 0; i < 200 && keeps_up && !pair.mirror.idle(); ++i, std::this_thread::yield()) pair.mirror.poll();
        }
        pair.device->allow(~u64{0});
        pair.mirror.start_digest(digest(pair.host.state));
        pair.settle();
      }, message);
      EXPECT(code == test.code && message.find(test.says) != std::string::npos, "%s: %s %s", test.what, code.c_str(),
             message.c_str());
    }
  }
}

/// A device that never answers: the number of waiting words is bounded, and earlier logs are not
/// lost.
static void test_given_up() {
  Pair pair({40, 32, 16, 0}, kSlotWords, 0, {}, 10);
  pair.device->allow(0);
  std::string message;
  u32 row = 0;
  const std::string code = code_of([&] {
    for (;; ++row) {
      pair.apply(open_rows(row, 1));
      pair.mirror.submit();
    }
  }, message);
  EXPECT(code == kMirror && message.find("behind by 10 words") != std::string::npos, "%s", message.c_str());
  EXPECT(row == kDepth + 5, "given up at row %u", row);
  pair.device->allow(~u64{0});
  pair.settle();
  EXPECT(pair.device->machine.state.num_commands == row, "%llu commands", wide(pair.device->machine.state.num_commands));
}

/// A digest requested while logs wait is computed exactly at the requested position.
static void test_digest_in_between() {
  Pair pair({40, 32, 16, 0}, kSlotWords, 0);
  pair.device->allow(0);
  for (u32 row = 0; row < kDepth + 1; ++row) {
    pair.apply(open_rows(row, 1));
    pair.mirror.submit();
  }
  const u64 then = digest(pair.host.state);
  pair.mirror.start_digest(then);
  pair.apply(open_rows(8, 8));
  pair.mirror.submit();
  std::string message;
  const std::string code = code_of([&] { pair.mirror.start_digest(then); }, message);
  EXPECT(code == kLimit, "%s", code.c_str());
  EXPECT(!pair.mirror.digest(), "a digest before the device made one");
  pair.device->allow(~u64{0});
  pair.settle();
  EXPECT(pair.mirror.digest() == then && digest(pair.device->machine.state) != then, "a digest of another state");
}

/// The same if a part of the words before it was already sent, and is forgotten.
static void test_digest_moves() {
  Pair pair({40, 32, 16, 0}, 8, 0);
  pair.device->allow(0);
  for (u32 row = 0; row < kDepth; ++row) {
    pair.apply(open_rows(row, 1));
    pair.mirror.submit();
  }
  for (u32 row = kDepth; row < kDepth + 7; ++row) pair.apply(open_rows(row, 1));
  const u64 then = digest(pair.host.state);
  pair.mirror.start_digest(then);
  pair.device->allow(1);
  while (pair.mirror.logs() == kDepth) pair.mirror.poll();
  EXPECT(pair.mirror.waiting_words() == 6, "%llu words wait", wide(pair.mirror.waiting_words()));
  pair.apply(open_rows(kDepth + 7, 3));
  pair.device->allow(~u64{0});
  pair.mirror.submit();
  pair.settle();
  EXPECT(pair.mirror.digest() == then, "a digest of another state");
}

static int all(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 400);
  test_one_launch_a_step();
  test_bound();
  test_cut();
  test_room_for_ids();
  test_carriers();
  test_lost_at_the_end();
  test_streams();
  test_accidents();
  test_given_up();
  test_digest_in_between();
  test_digest_moves();
  test_self_test();
  u32 carried[3] = {};
  u64 logs = 0, seed = 900;
  for (const u32 members : {0u, 3u}) {
    for (const u32 bits : {0u, kForceBits + 2}) {
      logs += run({24, 6, 8, bits, 2}, 512, members, seed++, steps, carried);
      logs += run({600, 24, 64, bits, 12}, kSlotWords, members, seed++, steps, carried);
    }
  }
  EXPECT(carried[0] && carried[1] && carried[2], "%u small, %u large, %u in slots", carried[0], carried[1], carried[2]);
  std::printf("mirror: %llu logs (%u small, %u large, %u in slots) as the host; every accident is found\n", wide(logs),
              carried[0], carried[1], carried[2]);
  return 0;
}

int main(int argc, char** argv) {
  try {
    return all(argc, argv);
  } catch (const Error& error) {
    EXPECT(false, "an error that no test expects: %s, %s", error.code, error.message.c_str());
  }
}
