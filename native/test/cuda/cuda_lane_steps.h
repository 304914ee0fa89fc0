// Jobs of a CUDA lane after the steps of an executor.
#pragma once

#include "cuda_lane_bench.h"

namespace blockstep::test {

/// Emulates the executor: overwrites a block of the source, late.
inline void write_late(const Stream& stream, BlockArena& arena, u32 block, u8 value) {
  gpu_code::require(cudaMemsetAsync(arena.block(block), value, arena.bytes_per_block(), stream.get()), "cudaMemsetAsync");
}

/// Jobs of a recorded step come after its work, without a call of the host.
inline void test_steps() {
  for (const Place from : {Place::kPinned, Place::kDevice}) {
    for (const CopyMode mode : {CopyMode::kBatch, CopyMode::kCopies, CopyMode::kKernel}) {
      const auto made = make_stream();
      const Stream& executor = *made;
      const u64 theirs = reinterpret_cast<std::uintptr_t>(executor.get());
      CudaBench bench(options_of(mode), from, from == Place::kPinned ? Place::kDevice : Place::kPinned);
      const auto byte = [&](u32 block) { return *bench.target->block(block); };
      bench.lane->settle(1);
      const u32 before = bench.submit({1}, {1}, 5);
      const u32 later = bench.submit({2}, {2}, 7);
      bench.flush({static_cast<std::int32_t>(bench.submit({3}, {3}))});  // overtakes the others
      EXPECT(bench.lane->waiting() == 2, "%u wait", bench.lane->waiting());
      plant("delay=2000");
      write_late(executor, *bench.source, 1, 0xa1);
      write_late(executor, *bench.source, 4, 0xa4);
      bench.cuda().record_step(6, theirs);
      EXPECT(bench.lane->waiting() == 1, "the step is recorded");
      const u32 behind = bench.submit({4}, {4}, 6);
      bench.flush({static_cast<std::int32_t>(before), static_cast<std::int32_t>(behind)});
      EXPECT(byte(1) == 0xa1 && byte(4) == 0xa4, "copied before the step was executed");
      const auto job = static_cast<std::int32_t>(later);
      EXPECT(bench.code_of([&] { bench.flush({job}); }) == std::string(kBadArg), "its step was not recorded");
      write_late(executor, *bench.source, 2, 0xa2);
      bench.cuda().record_step(6, theirs);  // changes nothing
      EXPECT(bench.lane->waiting() == 1, "step 6 again");
      bench.cuda().record_step(7, theirs);
      bench.lane->settle(3);  // after the recorded work
      bench.flush({job});
      EXPECT(byte(2) == 0xa2 && bench.verdict(later) == kOk, "copied before step 7 was executed");
      bench.cuda().record_step(5, theirs);  // also changes nothing
      bench.flush({static_cast<std::int32_t>(bench.submit({5}, {5}, 7))});
      EXPECT(bench.lane->waiting() == 0, "step 7 is recorded");
      plant("");
    }
  }
}

/// A job waits for its own step and not for later steps, however far behind these are. A step that
/// could not be recorded counts as unrecorded.
inline void test_steps_apart() {
  const auto made = make_stream();
  const Stream& executor = *made;
  const u64 theirs = reinterpret_cast<std::uintptr_t>(executor.get());
  DeviceLaneOptions options = options_of(CopyMode::kBatch);
  options.patience_ms = 2000;
  CudaBench bench(options);
  bench.cuda().record_step(1, theirs);
  std::atomic<bool> open{false};
  const auto gate = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  gpu_code::require(cudaLaunchHostFunc(executor.get(), gate, &open), "cudaLaunchHostFunc");
  write_late(executor, *bench.source, 2, 0xb2);
  bench.cuda().record_step(2, theirs);
  const u32 early = bench.submit({1}, {1}, 1);
  const u32 empty = bench.submit({}, {}, 2);
  const u32 late = bench.submit({2}, {2}, 2);
  bench.flush({static_cast<std::int32_t>(early)});
  EXPECT(bench.verdict(early) == kOk && bench.verdict(late) == 0, "it waited for step 2, or the other did not");
  EXPECT(bench.verdict(empty) == 0, "a job without blocks did not wait for step 2");
  open = true;
  bench.flush({static_cast<std::int32_t>(late)});
  EXPECT(bench.verdict(empty) == kOk, "it ended with %u", bench.verdict(empty));
  EXPECT(bench.verdict(late) == kOk && *bench.target->block(2) == 0xb2, "copied before step 2 was executed");

  plant("fail=1");
  EXPECT(bench.code_of([&] { bench.cuda().record_step(3, theirs); }) == std::string(kCuda), "it could not be recorded");
  plant("");
  const u32 behind = bench.submit({3}, {3}, 3);
  EXPECT(bench.lane->waiting() == 1, "step 3 was not recorded");
  bench.lane->settle(3);
  bench.flush({static_cast<std::int32_t>(behind)});
  EXPECT(bench.verdict(behind) == kOk, "it ended with %u", bench.verdict(behind));
}

/// The event of an early step is reused after many recorded steps, and a later event replaces it.
inline void test_many_steps() {
  const auto made = make_stream();
  const Stream& executor = *made;
  const u64 theirs = reinterpret_cast<std::uintptr_t>(executor.get());
  CudaBench bench(options_of(CopyMode::kBatch));
  for (u32 step = 1; step <= 200; ++step) {
    write_late(executor, *bench.source, step % kBlocks, static_cast<u8>(step));
    bench.cuda().record_step(step, theirs);
    if (step % 7 != 0) continue;
    const u32 fence = step - std::min(step - 1, step % 100);
    const auto job = static_cast<std::int32_t>(
        bench.submit({static_cast<std::int32_t>(fence % kBlocks)}, {9}, fence));
    if (step % 3 == 0) bench.lane->settle(step - 5);
    bench.flush({job});
    const u8 found = *bench.target->block(9);
    EXPECT(found == static_cast<u8>(fence) || found == static_cast<u8>(fence + kBlocks), "step %u: %u", fence, found);
    bench.drain();
  }
  // The last steps, which no job waited for, write to the source. It must not be freed before.
  gpu_code::require(cudaStreamSynchronize(executor.get()), "cudaStreamSynchronize");
}

}  // namespace blockstep::test
