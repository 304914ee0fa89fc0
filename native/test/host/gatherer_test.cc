// The host's half of a gather on a device: which messages it sends, when, and after which log.
// Threads emulate the device, which rewrites its whole tables each time. Any difference from the
// host's tables is therefore an error of the message or its order. Two sanitizers.
#include "../support/groups_life.h"
#include "gather_bench.h"
#include "one_request.h"

using namespace blockstep;
using namespace blockstep::test;

template <class Call>
static std::string code_of(const Call& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message) *message = error.message;
    return error.code;
  }
  return "";
}

/// Random lives on a device that keeps up or falls behind. Each gather belongs to its own step,
/// however late it runs.
template <class Life, class Shape>
static u64 run(const Shape& shape, u64 seed, u64 steps, bool late, u32 (&carried)[3]) {
  Bench<Life> bench(shape, seed);
  bench.device->can_join = seed % 2 == 0;
  std::atomic<bool> over{false};
  std::thread drip;
  if (late) {
    bench.device->allow(0);
    drip = std::thread([&] {
      for (u32 turn = 0; !over; ++turn) {
        bench.device->allow(turn % 5);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
  }
  std::vector<std::vector<u64>> expected;
  for (u64 step = 0; step < steps; ++step) {
    const u32 frame = bench.life.step();
    expected.push_back(bench.life.memory(frame));
    if (late) bench.life.change();
    if (step % 9 == 4) bench.life.core().poll();
  }
  over = true;
  if (drip.joinable()) drip.join();
  bench.device->allow(~u64{0});
  bench.settle();
  EXPECT(bench.gathered.size() == steps, "%zu gathers", bench.gathered.size());
  for (u64 step = 0; step < steps; ++step) {
    EXPECT(bench.gathered[step] == expected[step], "%s, seed %llu, step %llu: other tables", shape.name, wide(seed), wide(step));
  }
  EXPECT(bench.life.core().gatherer().done() == steps, "%llu done", wide(bench.life.core().gatherer().done()));
  for (u32 i = 0; i < 3; ++i) carried[i] += bench.device->tables->carried[i];
  return bench.life.waits();
}

/// A device that keeps up causes no waits, and gets one log and one gather a step, in this order.
static void test_keeps_up() {
  Bench<> bench(kShortRows, 3);
  for (u32 step = 0; step < 200; ++step) {
    bench.device->calls.clear();
    bench.life.step();
    EXPECT(bench.device->calls == "ag" || bench.device->calls == "g", "step %u: %s", step, bench.device->calls.c_str());
    bench.settle();
  }
  EXPECT(bench.life.waits() == 0, "%llu waits", wide(bench.life.waits()));
}

/// A device that joins them gets a log with its gather, in one launch. If no gather follows, the
/// next call sends the log first. Logs of rare commands, and logs that another stream is ordered
/// with, come before the gather.
static void test_joined() {
  Bench<> bench(kShortRows, 6);
  bench.device->can_join = true;
  u32 joined = 0;
  for (u32 step = 0; step < 200; ++step) {
    bench.device->calls.clear();
    bench.life.step();
    EXPECT(bench.device->calls == "j" || bench.device->calls == "g", "step %u: %s", step, bench.device->calls.c_str());
    joined += bench.device->calls == "j";
    bench.settle();
  }
  EXPECT(joined > 100 && bench.life.waits() == 0, "%u joined, %llu waits", joined, wide(bench.life.waits()));
  const auto held = [&] {
    bench.settle();  // otherwise a log would wait for the device, and not be held
    do bench.life.change(); while (bench.life.core().mirror()->waiting_words() == 0);
    bench.device->calls.clear();
  };
  held();
  EXPECT(!bench.life.core().poll() && bench.device->calls == "a", "nobody sends what is held: %s", bench.device->calls.c_str());
  held();
  do bench.life.change(); while (bench.life.core().mirror()->waiting_words() != 0);
  EXPECT(bench.device->calls == "a", "two steps without a gather: %s", bench.device->calls.c_str());
  held();
  bench.life.step(7);
  EXPECT(bench.device->calls.substr(bench.device->calls.find_first_not_of('a')) == "fgl", "%s", bench.device->calls.c_str());
  held();
  bench.life.core().start_mirror_digest();
  EXPECT(bench.device->calls == "a", "a digest passes what is held: %s", bench.device->calls.c_str());
  bench.settle();
  OneRequest one;
  one.device->can_join = true;
  one.entry(0, one.slot, 8, 1);
  const std::int32_t unused = 50;
  one.core.evict({&unused, 1});
  one.core.submit({});
  one.core.gather_on_device(0, 1, {});
  EXPECT(one.device->calls == "ag", "a log of rare commands: %s", one.device->calls.c_str());
}

/// With a stream, a gather runs after the work queued there, and before later work.
static void test_streams() {
  Bench<> bench(kShortRows, 4);
  for (u32 step = 0; step < 20; ++step) {
    bench.device->calls.clear();
    bench.life.step(step % 2 ? std::optional<u64>(70 + step) : std::nullopt);
    const std::string gather = bench.device->calls.substr(bench.device->calls.find_first_not_of('a'));
    EXPECT(gather == (step % 2 ? "fgl" : "g"), "step %u: %s", step, gather.c_str());
    bench.settle();
  }
  EXPECT(bench.device->followed.size() == 10 && bench.device->followed == bench.device->led, "other streams");
  EXPECT(bench.device->followed.back() == 89, "stream %llu", wide(bench.device->followed.back()));
}

/// A step whose log could not be sent yet: the gather waits for the log, and runs after it.
static void test_waits_for_the_log() {
  Bench<> bench(kShortRows, 5);
  bench.life.step();
  bench.settle();
  bench.device->allow(0);
  while (bench.device->calls.size() < 2 || !bench.life.core().mirror()->waiting_words()) bench.life.change();
  EXPECT(bench.life.core().mirror()->outstanding() == kShortRows.num_frames, "%u logs", bench.life.core().mirror()->outstanding());
  bench.device->calls.clear();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    bench.device->allow(~u64{0});
  });
  const u32 frame = bench.life.step();
  later.join();
  EXPECT(bench.device->calls == "ag", "%s", bench.device->calls.c_str());
  EXPECT(bench.life.waits() == 1, "%llu waits", wide(bench.life.waits()));
  bench.settle();
  EXPECT(bench.gathered.back() == bench.life.memory(frame), "other tables");
}

/// Long messages use the slots in turn, and no message is overwritten before it was read. A wait
/// ends after a while, for a log that cannot be sent or a slot that does not become free.
static void test_slots() {
  constexpr u32 kTokens = 9000;
  constexpr u32 kBlocks = kTokens / 4;
  const Config pool{kBlocks + 2, 2, kBlocks, 0};
  const TablesShape shape{kTokens, 2, kBlocks};
  EmulatedDevice device(pool, 2, slot_words(pool), 0);
  Gatherer gatherer(device, shape, 4, {2, std::chrono::milliseconds(30)});
  std::vector<std::int32_t> first_ids;
  device.tables->on_gather = [&](const void* memory) {
    first_ids.push_back(*lay_out_tables(shape, const_cast<void*>(memory)).input_ids);
  };
  Log log;
  log.add(Op::kOpen, 0, {0});
  log.add(Op::kExtend, 1, {0, kBlocks});
  device.apply_value({1, 0}, Carrier::kSmall, log.words.data(), log.size());
  device.tables->read(Table::kSeqLens, std::vector<u8>(8).data());

  const auto gather = [&](std::int32_t id, u32 tokens, bool given = true) {
    const std::vector<std::int32_t> ids(tokens, id);
    gatherer.begin(1, tokens);
    gatherer.add(0, 0, tokens, kBlocks, ids.data(), tokens);
    gatherer.launch({}, [given] { return given; });
  };
  std::string message;
  std::string code = code_of([&] { gather(1, 1, false); }, &message);
  EXPECT(code == kCuda && message.find("log of a step") != std::string::npos, "%s: %s", code.c_str(), message.c_str());
  EXPECT(gatherer.waits() == 1 && gatherer.given() == 0 && device.carried[2] == 0, "given all the same");

  device.allow(0);
  gather(1, kTokens);
  gather(2, kTokens);
  for (std::int32_t id = 3; id < 8; ++id) gather(id, 1);  // by value, in any number
  EXPECT(gatherer.given() == 7 && gatherer.done() == 0 && gatherer.waits() == 1, "%llu given", wide(gatherer.given()));
  code = code_of([&] { gather(8, kTokens); }, &message);
  EXPECT(code == kCuda && message.find("slot") != std::string::npos, "%s: %s", code.c_str(), message.c_str());
  EXPECT(gatherer.waits() == 2 && gatherer.given() == 7, "given all the same");
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    device.allow(~u64{0});
  });
  for (std::int32_t id = 8; id < 20; ++id) gather(id, kTokens);
  later.join();
  device.tables->read(Table::kSeqLens, std::vector<u8>(8).data());
  EXPECT(gatherer.done() == 19 && first_ids.size() == 19, "%llu done", wide(gatherer.done()));
  for (std::int32_t i = 0; i < 19; ++i) EXPECT(first_ids[static_cast<std::size_t>(i)] == i + 1, "gather %d has ids of another", i + 1);
}

/// A failed launch of a gather poisons the core permanently.
static void test_accidents() {
  Bench<> bench(kShortRows, 6, {.gather_fails = 3});
  bench.life.step();
  bench.life.step();
  std::string message;
  EXPECT(code_of([&] { bench.life.step(); }, &message) == kCuda && message == "the emulated launch failed", "%s", message.c_str());
  EXPECT(code_of([&] { bench.life.core().submit({}); }) == kCuda, "the core goes on");
  EXPECT(code_of([&] { bench.life.core().read_device_table(Table::kSeqLens, nullptr); }) == kCuda, "the core goes on");
}

/// Inconsistent arguments are refused before any message is sent.
static void test_refusals() {
  OneRequest bench;
  HostCore& core = bench.core;
  EXPECT(code_of([&] { core.make_device_tables(13); }) == kBadArg, "tables of another size");
  EXPECT(&core.make_device_tables(12) == &core.gatherer().tables().descriptor(), "other tables");
  const u32 without_row = bench.add();
  struct Case {
    u32 slot;
    std::int32_t computed, scheduled;
    const char* code;
  };
  const Case cases[] = {{7, 8, 1, kBadSlot},          {without_row, 8, 1, kNoRow}, {bench.slot, 8, 5, kBadArg},
                        {bench.slot, -1, 1, kBadArg}, {bench.slot, 8, 0, kBadArg}, {bench.slot, 0, 12, kBadArg}};
  bench.entry(0, bench.slot, 8, 1);  // valid, and one token too many with the last case
  for (const Case& test : cases) {
    bench.entry(1, test.slot, test.computed, test.scheduled);
    const std::string code = code_of([&] { core.gather_on_device(0, 2, {}); });
    EXPECT(code == test.code, "slot %u, %d computed, %d scheduled: %s", test.slot, test.computed, test.scheduled, code.c_str());
  }
  EXPECT(bench.device->calls.empty() && core.gatherer().given() == 0, "%s was sent", bench.device->calls.c_str());

  std::vector<std::int32_t> words(Exchange::words_needed(4, 1, 3), 0);
  const Exchange exchange(words.data(), 4, 3);
  HostCore host(OneRequest::config(), exchange);
  EXPECT(code_of([&] { host.make_device_tables(8); }) == kCuda, "tables without a device");
  EXPECT(code_of([&] { host.gather_on_device(0, 0, {}); }) == kBadArg, "a gather without tables");
}

/// Pending operations of TypeScript are applied, and an unsubmitted log is sent before the gather.
static void test_pending() {
  OneRequest bench;
  bench.entry(0, bench.slot, 8, 3);
  bench.push(PendingOp::kAppend, bench.slot, 77);
  bench.core.gather_on_device(0, 1, {});
  EXPECT(bench.device->calls == "ag", "%s", bench.device->calls.c_str());
  std::int32_t ids[12];
  bench.core.read_device_table(Table::kInputIds, ids);
  EXPECT(ids[0] == 8 && ids[1] == 77 && ids[2] == -1 && ids[3] == -1, "%d %d %d %d", ids[0], ids[1], ids[2], ids[3]);
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 300);
  try {
    test_keeps_up();
    test_joined();
    test_streams();
    test_waits_for_the_log();
    test_slots();
    test_accidents();
    test_refusals();
    test_pending();
    u32 carried[3] = {};
    u64 waits = 0;
    u64 seed = 40;
    for (const bool late : {false, true}) {
      for (const LifeShape& shape : {kShortRows, kOne}) waits += run<TablesLife>(shape, seed++, steps, late, carried);
      waits += run<TablesLife>(kLongRows, seed++, steps / 10, late, carried);
      waits += run<TablesLife>(kManyRows, seed++, steps / 20, late, carried);
      for (u32 i = 0; i < 6; ++i) waits += run<GroupsLife>(kShortGroups, seed++, steps, late, carried);
      for (u32 i = 0; i < 2; ++i) waits += run<GroupsLife>(kLongGroups, seed++, steps / 10, late, carried);
    }
    EXPECT(waits != 0 && carried[0] && carried[1] && carried[2], "%llu waits, %u small, %u large, %u in slots", wide(waits),
           carried[0], carried[1], carried[2]);
    std::printf("gatherer: %u gathers as the host's (%u small, %u large, %u in slots), %llu of them waited\n",
                carried[0] + carried[1] + carried[2], carried[0], carried[1], carried[2], wide(waits));
  } catch (const Error& error) {
    EXPECT(false, "an error that no test expects: %s, %s", error.code, error.message.c_str());
  }
  return 0;
}
