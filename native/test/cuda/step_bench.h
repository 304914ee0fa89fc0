// From the call that gives a step to the GPU to the word that says that it is done, the host having decided.
#pragma once

#include "../../cuda/cuda_device.h"
#include "../../host/mirror.h"
#include "figures.h"
#include "matrix_product.h"
#include "steps.h"

namespace blockstep::bench {

/// Budgets of the design, on an H100 that is idle.
constexpr double kStepBudget = 10;
constexpr double kLaunchBudget = 4;

/// The state on the host and its mirror. What is measured is submit() and poll(); what the host does before is not.
class MirrorBench {
 public:
  explicit MirrorBench(u32 device) : host_(kPool), mirror_(open(device), limits()) {
    // Twice through the whole pool, so that every block carries a key.
    for (u32 i = 0; i < 2 * kPool.num_blocks / kLongBlocks; ++i) {
      act([&](test::Log& log) { steps_.admit_long(log); });
      act([&](test::Log& log) { steps_.finish_long(log); });
    }
    apply(steps_.restart());
    settle();
    EXPECT(host_.state.evictions != 0, "a pool in which nothing is evicted");
  }

  /// All steps beside one thing. The digest of the whole state is compared at the end of each.
  void run(Beside beside, const Effort& effort) {
    const auto nothing = [](test::Log&) {};
    const auto decode = [&](test::Log& log) { steps_.decode(log); };
    measure("decode of 256, 16 new blocks", beside, effort, nothing, decode, nothing, kStepBudget);
    measure(
        "decode of 256, 4 finished of 40 blocks", beside, effort, [&](test::Log& log) { steps_.admit_others(log); },
        [&](test::Log& log) {
          steps_.finish_others(log);
          steps_.decode(log);
        },
        nothing, 0);
    measure(
        "decode of 256, 4 admitted of 40 blocks", beside, effort, nothing,
        [&](test::Log& log) {
          steps_.decode(log);
          steps_.admit_others(log);
        },
        [&](test::Log& log) { steps_.finish_others(log); }, 0);
    measure(
        "admission of 126,000 tokens", beside, effort, nothing, [&](test::Log& log) { steps_.admit_long(log); },
        [&](test::Log& log) { steps_.finish_long(log); }, 0);
  }

 private:
  using Part = std::function<void(test::Log&)>;

  static std::unique_ptr<Device> open(u32 device) {
    cuda::Options options;
    options.device = device;
    options.max_logs = kMaxLogs;
    return cuda::open(kPool, options);
  }
  static MirrorLimits limits() { return {kMaxLogs, slot_words(kPool), kPool.num_blocks, kMaxWaitingWords}; }

  void measure(const char* name, Beside beside, const Effort& effort, const Part& before, const Part& step,
               const Part& after, double budget) {
    Samples whole;
    Samples launch;
    u32 words = 0;
    repeat(effort, [&](bool counts) {
      if (steps_.full()) apply(steps_.restart());
      act(before);
      settle();
      test::Log log;
      step(log);
      words = log.size();
      host_.apply(log);
      const auto start = Clock::now();
      mirror_.append(log.words.data(), log.size(), host_.results.num_ids, host_.state.rolling_digest);
      mirror_.submit();
      const auto launched = Clock::now();
      while (mirror_.poll(), !mirror_.idle()) {
      }
      const auto end = Clock::now();
      if (counts) {
        whole.add(end - start);
        launch.add(launched - start);
      }
      act(after);
    });
    mirror_.start_digest(digest(host_.state));
    settle();
    const bool idle = beside == Beside::kIdle;
    Label label{name, "host", name_of(beside), idle ? budget : 0};
    print(label, whole);
    label.name += ", host side";
    label.budget = idle && carrier_of(words) == Carrier::kSmall ? kLaunchBudget : 0;
    print(label, launch);
  }

  void act(const Part& part) {
    test::Log log;
    part(log);
    if (log.size() != 0) apply(log);
  }

  void apply(const test::Log& log) {
    host_.apply(log);
    EXPECT(host_.results.fault == kNoFault, "%s", describe(host_.results.fault));
    mirror_.append(log.words.data(), log.size(), host_.results.num_ids, host_.state.rolling_digest);
    mirror_.submit();
    settle();
  }

  void settle() {
    while (mirror_.poll(), !mirror_.idle()) {
    }
  }

  static constexpr u32 kMaxLogs = 2;
  test::Machine host_;
  Mirror mirror_;
  Steps steps_;
};

}  // namespace blockstep::bench
