// Measures from the call that gives a step to the GPU to the word that reports its end. The host
// has decided.
#pragma once

#include "kernels/matrix_product.h"
#include "worn_pool.h"

namespace blockstep::bench {

/// Microseconds that the host may need to launch a short log, on a machine with an idle H100.
constexpr double kLaunchBudget = 4;

/// Only submit() and poll() are measured, not the host's earlier work.
class MirrorBench {
 public:
  explicit MirrorBench(u32 device, bool launch_thread = false)
      : authority_(launch_thread ? nullptr : "host"), pool_(device, false, launch_thread) {}

  /// All steps beside one kind of work. The digest of the whole state is compared at the end of
  /// each.
  void run(Beside beside, const Effort& effort) {
    const bool idle = beside == Beside::kIdle;
    for (const MeasuredStep& step : pool_.measured_steps()) measure(step, name_of(beside), idle, effort, [] {}, false);
    if (!idle) return;
    // The cost of continuous queries of the driver.
    MeasuredStep asked = pool_.measured_steps()[0];
    asked.budget = 0;
    measure(asked, "idle, asked in every poll", false, effort, [] {}, true);
  }

  /// Only the first step, whose log another thread launches: the figure is the time of the calling
  /// thread.
  void run_by_thread(const Effort& effort) {
    MeasuredStep step = pool_.measured_steps()[0];
    step.name = "decode of 256 launched by a thread";
    measure(step, "idle", false, effort, [] {}, false);
  }

  /// Directly after a product, like a step after a forward pass: every cache holds the product's
  /// data.
  void run_behind(OneProduct& product, const Effort& effort) {
    for (const MeasuredStep& step : pool_.measured_steps()) {
      measure(step, "right behind a matrix product", false, effort, [&] { product.run(); }, false);
    }
  }

 private:
  template <class Before>
  void measure(const MeasuredStep& step, const char* beside, bool idle, const Effort& effort, const Before& just_before, bool asks) {
    Samples whole;
    Samples launch;
    u32 words = 0;
    repeat(effort, [&](bool counts) {
      pool_.make_room();
      pool_.act(step.before);
      test::Log log;
      step.step(log);
      words = log.size();
      pool_.apply_here(log);
      just_before();
      const auto start = Clock::now();
      pool_.append(log);
      pool_.mirror().submit();
      const auto launched = Clock::now();
      while (pool_.mirror().poll(), !pool_.mirror().idle()) {
        if (asks) pool_.mirror().device().check();
      }
      const auto end = Clock::now();
      if (counts) {
        whole.add(end - start);
        launch.add(launched - start);
      }
      pool_.act(step.after);
    });
    pool_.compare();
    Label label{step.name, authority_, beside, idle ? step.budget : 0};
    print(label, whole);
    label.name += ", host side";
    label.budget = idle && carrier_of(words) == Carrier::kSmall ? kLaunchBudget : 0;
    print(label, launch);
  }

  const char* const authority_;
  WornPool pool_;
};

}  // namespace blockstep::bench
