// The calls of steps and lanes while other code always has work on the GPU: none may wait until it
// is idle.
#pragma once

#include "../../gpu_shim/runtime/stream.h"
#include "living.h"

namespace blockstep::test {

/// All calls that steps and lanes make after they are opened. A driver may let a call that
/// allocates, creates, loads or synchronises wait for an idle GPU. Beside continuously queued
/// copies, the GPU is never idle.
static void test_steps_wait_for_no_idle_gpu() {
  const auto theirs = make_stream();
  const u64 stream = reinterpret_cast<std::uintptr_t>(theirs->get());
  const auto core = open_core(0);
  DeviceTables& tables = core->make_tables(tables_of(40000), 16, 1);
  std::vector<std::unique_ptr<CudaBench>> lanes;
  for (const CopyMode mode : {CopyMode::kAuto, CopyMode::kBatch, CopyMode::kKernel, CopyMode::kCopies}) {
    for (const CompletionMode completion : {CompletionMode::kWriteValue, CompletionMode::kEvent}) {
      lanes.push_back(std::make_unique<CudaBench>(options_of(mode, completion)));
    }
  }
  const unsigned before = gpu_shim::calls_that_may_wait();
  const auto settle = [&](const Completion& completion, u32 number) {
    while (completion.word.load(std::memory_order_acquire) >> 32 != number) core->check();
  };
  u32 number = 0;
  // Rare and common commands, in a parameter of each size and in a slot.
  for (const bool rare : {false, true}) {
    for (const u32 opened : {100u, 400u, 1500u, 5000u}) {
      Log log;
      for (u32 i = 0; i < opened; ++i) {
        log.add(Op::kOpen, 0, {0});
        log.add(Op::kRelease, 1, {0});
      }
      if (rare) log.add(Op::kReset, 0, {});
      ++number;
      if (carrier_of(log.size()) == Carrier::kSlot) {
        std::copy(log.words.begin(), log.words.end(), core->slot(0));
        core->apply_slot({number, 0}, log.size());
      } else {
        core->apply_value({number, 0}, carrier_of(log.size()), log.words.data(), log.size());
      }
      settle(core->completion(0), number);
      EXPECT(static_cast<u32>(core->completion(0).word) == kNoFault, "log %u: fault", number);
    }
  }
  core->start_digest(1);
  settle(core->digest_completion(), 1);
  u32 gathers = 0;
  for (const u32 tokens : {1u, 5000u, 40000u}) {
    std::vector<u32> words(u64{3} + tokens, 0);
    const GatherHead head{++gathers, 1, tokens, 0, 0, 0, 1};
    core->follow(stream);
    const Carrier carrier = gather_carrier_of(words.size());
    const u32 count = static_cast<u32>(words.size());
    if (carrier == Carrier::kSlot) {
      std::copy(words.begin(), words.end(), tables.slot(0));
      tables.gather_slot(head, 0, count);
    } else {
      tables.gather_value(head, carrier, words.data(), count);
    }
    core->lead(stream);
    settle(tables.completion(), gathers);
  }
  std::int64_t step = 0;
  for (auto& lane : lanes) {
    for (u32 i = 0; i < 100; ++i) {  // more steps than kept events
      lane->cuda().record_step(++step, stream);
      if (i % 10 == 0) lane->submit({1, 3, 4}, {5, 6, 7}, step);
    }
    lane->cuda().fence();
    lane->drain();
  }
  const unsigned made = gpu_shim::calls_that_may_wait() - before;
  EXPECT(made == 0, "%u calls that may wait for an idle GPU", made);
}

}  // namespace blockstep::test
