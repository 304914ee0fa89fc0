// A core whose logs are launched by a separate thread, on the emulated GPU. The logs are the same,
// in the same order, followed by gathers and digests. Some launches fail, and one does not return.
// Also under the thread sanitizer.
#include "../../cuda/device/launch_thread.h"
#include "../../cuda/kernels/launch.cuh"
#include "../support/tables_life.h"
#include "neighbours/living.h"

using namespace blockstep;
using namespace blockstep::test;

static gpu_code::Options launched_by_thread(u32 max_logs) {
  gpu_code::Options options;
  options.max_logs = max_logs;
  options.launch_thread = true;
  return options;
}

/// Random lives: gathers after a log equal the host's, and the digests agree.
static void test_lives(u64 steps) {
  for (const LifeShape& shape : {kShortRows, kOne}) {
    TablesLife life(shape, 7, [](const Config& pool, u32 max_logs) { return gpu_code::open(pool, launched_by_thread(max_logs)); });
    for (u64 step = 0; step < steps; ++step) {
      const u32 frame = life.step();
      if (step % 3 == 0) life.change();
      // The launch thread sleeps, and is woken.
      if (step % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (u32 i = 0; step % 5 == 0 && i < kNumTables; ++i) {
        const std::vector<u8> expected = life.array(frame, static_cast<Table>(i));
        std::vector<u8> found(expected.size());
        if (step % 3 != 0) life.core().read_device_table(static_cast<Table>(i), found.data());
        EXPECT(step % 3 == 0 || found == expected, "%s, step %llu: table %u", shape.name, wide(step), i);
      }
    }
    life.core().start_mirror_digest();
    while (!life.core().poll()) std::this_thread::yield();
    EXPECT(life.core().mirror_digest().has_value(), "no digest");
  }
}

/// The caller of a log makes no launch, so the next call reports a failed launch, and later logs
/// are not launched.
static void test_failures() {
  for (const char* fault : {"fail=1", "lose=1"}) {
    const auto core = gpu_code::open(kPool, launched_by_thread(2));
    apply_log(*core, 1);
    plant(fault);
    Log log;
    log.add(Op::kOpen, 0, {2});
    core->apply_value({2, 1}, Carrier::kSmall, log.words.data(), log.size());
    std::string said;
    for (const auto start = std::chrono::steady_clock::now(); said.empty() && seconds_since(start) < 10;) {
      const std::string now = message_of([&] { core->check(); });
      if (now != "none") said = now;
    }
    EXPECT(has(said, kCuda), "%s: %s", fault, said.c_str());
    plant("");
    const auto again = [&] { core->apply_value({3, 0}, Carrier::kSmall, log.words.data(), log.size()); };
    if (has(fault, "fail")) EXPECT(has(message_of(again), "launch of apply"), "after it: %s", message_of(again).c_str());
    if (has(fault, "fail")) EXPECT(has(message_of([&] { core->start_digest(1); }), "launch of apply"), "a digest after it");
    EXPECT(core->completion(1).word.load() == 0, "it was launched nevertheless");
  }
}

/// Destruction while letters wait: each of them is launched and done before its memory is freed.
static void test_destroyed() {
  const u64 before = gpu_code::abandoned_bytes();
  for (u32 round = 0; round < 20; ++round) {
    const auto core = gpu_code::open(kPool, launched_by_thread(3));
    for (u32 number = 1; number <= 3; ++number) {
      Log log;
      log.add(Op::kOpen, 0, {number});
      core->apply_value({number, number - 1}, Carrier::kSmall, log.words.data(), log.size());
    }
  }
  EXPECT(gpu_code::abandoned_bytes() == before, "memory was abandoned");
}

__global__ void never_loaded(const gpu_code::LaunchThread::Log) {}

/// A launch that does not return: the wait for it ends, and the thread is abandoned.
static void test_stuck() {
  const OnDevice on(0);
  auto stream = std::make_unique<Stream>();
  auto launches = std::make_unique<gpu_code::LaunchThread>(0, stream->get(), 2);
  plant("spin");
  for (u32 i = 0; i < 2; ++i) {
    launches->next() = {};
    launches->push(gpu_code::address(&never_loaded), 32);
  }
  EXPECT(has(message_of([&] { launches->drain(); }), "did not end within"), "a launch without end");
  EXPECT(has(message_of([&] { launches->next(); }), "did not end within"), "a place in a full ring");
  launches.reset();
  plant("");
  live_on(0);  // the launch returns meanwhile, and no other follows
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 200);
  test_lives(steps);
  test_failures();
  test_destroyed();
  if (steps >= 50) test_stuck();
  std::printf("logs launched by a thread of the core: the same logs, in their order\n");
  std::fflush(stdout);
  std::_Exit(0);
}
