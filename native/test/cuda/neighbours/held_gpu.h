// A foreign kernel that holds a whole GPU.
#pragma once

#include "living.h"

namespace blockstep::test {

/// A foreign kernel holds the GPU forever. Calls that open or destroy objects meanwhile end, and
/// report the reason of a failure.
static void test_held_gpu() {
  auto core = open_core(0);
  auto bench = std::make_unique<CudaBench>(options_of(CopyMode::kKernel));
  auto arena = make_arena(Place::kDevice);
  apply_log(*core, 1);
  const u64 before = gpu_code::abandoned_bytes();
  const auto start = std::chrono::steady_clock::now();
  plant("spin");
  const std::string core_said = message_of([] { open_core(0); });
  EXPECT(has(core_said, kCuda) && has(core_said, "busy with something else"), "a core: %s", core_said.c_str());
  const auto ring = std::make_shared<CompletionRing>(4);
  EXPECT(gpu_code::open_lane(ring, bench->source, bench->target, {})->info().mode == CopyMode::kKernel, "a lane");
  const std::string arena_said = message_of([] { make_arena(Place::kDevice); });
  EXPECT(has(arena_said, kCuda) && has(arena_said, "stay allocated"), "an arena: %s", arena_said.c_str());
  std::vector<u8> block(kBytes);
  EXPECT(has(message_of([&] { arena->read_block(0, block.data()); }), "did not end"), "a block was read");
  core.reset();
  arena.reset();
  gpu_code::forget_usable();
  const gpu_code::Probe found = gpu_code::probe(0);
  EXPECT(!found.usable && has(found.reason, "did not start in time"), "%s", found.reason.c_str());
  const OnDevice on(0);
  // Not the memory of the self-test, which may still answer.
  const gpu_code::MappedMemory next(sizeof(Mailbox));
  EXPECT(seconds_since(start) < 60, "it took %.1f s", seconds_since(start));
  EXPECT(gpu_code::abandoned_bytes() > before, "work that did not end may use nothing");
  plant("");
  const gpu_code::Probe after = gpu_code::probe(0);
  EXPECT(after.usable && has(after.reason, "bytes stay allocated"), "%s", after.reason.c_str());
  // The abandoned self-test begins now, and waits for questions until its time limit.
  gpu_code::require(cudaDeviceSynchronize(), "what was given up");
  for (u64 at = 0; at < next.bytes(); ++at) EXPECT(next.base()[at] == 0, "byte %llu was written by the test that was given up", wide(at));
  live_on(0);
}

/// A foreign kernel holds a GPU on which none of our kernels was loaded. CUDA may not load a kernel
/// before it ends.
static void test_held_before_loading() {
  plant("devices=6,spin");
  const auto start = std::chrono::steady_clock::now();
  const gpu_code::Probe found = gpu_code::probe(5);
  EXPECT(!found.usable && has(found.reason, "could not be loaded") && has(found.reason, "busy with something else"), "%s",
         found.reason.c_str());
  EXPECT(seconds_since(start) < 30, "it took %.1f s", seconds_since(start));
  plant("devices=6");
  live_on(5);
  plant("");
}

}  // namespace blockstep::test
