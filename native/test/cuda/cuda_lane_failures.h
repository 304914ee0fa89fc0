// A CUDA lane on a GPU that fails, is lost, falls silent or hangs.
#pragma once

#include "cuda_lane_bench.h"

namespace blockstep::test {

/// Jobs of all kinds while one CUDA call or query fails: reported copies are complete, and every
/// job ends exactly once.
/// @returns the verdicts
inline std::vector<u32> live_with(CudaBench& bench, u64 executor, const std::string& fault) {
  const std::vector<std::int32_t> offsets{0, 1, 5, 7, 8};
  std::vector<std::pair<u32, std::int32_t>> jobs;
  plant(fault);
  for (std::int32_t at = 0; at < 60; at += 10) {
    std::vector<std::int32_t> blocks;
    for (const std::int32_t offset : offsets) blocks.push_back(at + offset);
    try {
      if (at == 30) bench.cuda().record_step(2, executor);
      jobs.emplace_back(bench.submit(blocks, blocks, at / 10 % 3), at);
      if (at == 40) bench.lane->settle(2);
    } catch (const Error& error) {
      EXPECT(error.code == std::string(kCuda), "%s: %s", error.code, error.message.c_str());
    }
  }
  bench.lane->settle(2);
  bench.lane->fence();
  plant("");
  EXPECT(bench.lane->pending() == 0 && bench.lane->waiting() == 0, "%s: jobs are left", fault.c_str());
  std::vector<u32> verdicts;
  for (const auto& [job, at] : jobs) {
    verdicts.push_back(bench.verdict(job));
    EXPECT(verdicts.back() == kOk || verdicts.back() == kFailed, "%s: job %u ended with %u", fault.c_str(), job, verdicts.back());
    for (const std::int32_t offset : offsets) {
      const auto block = static_cast<u32>(at + offset);
      const bool came = verdicts.back() == kOk || bench.target->arrivals(block) != 0;
      EXPECT(!came || holds(*bench.target, block, block, 1), "%s: block %u", fault.c_str(), block);
    }
  }
  EXPECT(bench.ring->in_flight() == 0, "%s: a job is not over", fault.c_str());
  return verdicts;
}

/// Any one CUDA call or query fails. At most one job, or the lane, fails.
inline void test_failed_calls(u32 calls, CopyMode mode) {
  u32 failed = 0;
  u32 lost = 0;
  u32 stores = 0;  // failed stores, as reported by the lane
  for (const CompletionMode completion : {CompletionMode::kWriteValue, CompletionMode::kEvent}) {
    const auto made = make_stream();
    const Stream& executor = *made;
    const u64 theirs = reinterpret_cast<std::uintptr_t>(executor.get());
    DeviceLaneOptions options = options_of(mode, completion);
    options.piece_bytes = 3 * kBytes;
    for (u32 at = 0; at < 2 * calls; ++at) {
      const std::string fault = (at % 2 == 0 ? "fail=" : "ask=") + std::to_string(at / 2 + 1);
      CudaBench bench(options);
      const std::vector<u32> verdicts = live_with(bench, theirs, fault);
      failed += static_cast<u32>(std::count(verdicts.begin(), verdicts.end(), kFailed));
      try {
        bench.submit({1}, {1});
      } catch (const Error& error) {
        EXPECT(error.code == kCuda, "%s", error.code);
        lost += 1;
        stores += error.message.find("cuStreamWriteValue64") != std::string::npos;
      }
      bench.lane.reset();
      bench.drain();
      EXPECT(bench.ring->in_flight() == 0, "%s: a job is not over", fault.c_str());
    }
    for (u32 call = 1; call <= 3 * calls; ++call) {
      plant("fail=" + std::to_string(call));
      try {
        CudaBench bench(options);
      } catch (const Error& error) {
        EXPECT(error.code == std::string(kCuda), "%s: %s", error.code, error.message.c_str());
      }
      plant("");
    }
  }
  EXPECT(calls < 60 || (failed > 10 && lost > 2 && lost < 3 * calls && stores > 0),
         "%u jobs failed, %u lanes were lost, of these %u by their word", failed, lost, stores);
}

/// The device is lost: every job fails, no call waits, and the lane reports it from then on.
inline void test_lost() {
  for (const CompletionMode completion : {CompletionMode::kWriteValue, CompletionMode::kEvent}) {
    for (u32 way = 0; way < 4; ++way) {
      CudaBench bench(options_of(CopyMode::kKernel, completion));
      CudaBench other(options_of(CopyMode::kKernel, completion));
      const u32 waits = bench.submit({5}, {5}, 9);
      plant("delay=20000,lose=3");
      const u32 first = bench.submit({1}, {1});
      const u32 second = bench.submit({2}, {2});
      const u32 fatal = other.submit({1}, {1});
      EXPECT(other.verdict(fatal) == kFailed, "it ended with %u", other.verdict(fatal));
      const auto job = static_cast<std::int32_t>(second);
      if (way == 0) bench.flush({job});
      else if (way == 1) bench.lane->fence();
      else if (way == 2) while (bench.verdict(second) == 0) std::this_thread::yield();
      else bench.lane.reset();
      EXPECT(bench.verdict(second) == kFailed, "way %u: it ended with %u", way, bench.verdict(second));
      EXPECT(bench.verdict(first) != 0 && bench.ring->in_flight() == 0, "way %u: a job is left", way);
      EXPECT(bench.verdict(waits) == (way == 1 || way == 3 ? kCancelled : kFailed), "way %u: %u", way, bench.verdict(waits));
      plant("");
      if (!bench.lane) continue;
      EXPECT(bench.code_of([&] { bench.submit({3}, {3}); }) == std::string(kCuda), "it is lost");
      EXPECT(bench.code_of([&] { bench.cuda().record_step(1, 0); }) == std::string(kCuda), "it is lost");
      bench.lane->settle(10);
      bench.lane->fence();
      bench.flush({job});
      EXPECT(!bench.lane->cancel(second) && bench.lane->pending() == 0, "nothing is left");
    }
  }
}

/// The GPU's reports are missing, although it has done its work.
inline void test_silent() {
  CudaBench bench(options_of(CopyMode::kBatch, CompletionMode::kWriteValue));
  plant("mute");
  const u32 job = bench.submit({1}, {1});
  const auto start = std::chrono::steady_clock::now();
  bench.flush({static_cast<std::int32_t>(job)});
  EXPECT(std::chrono::steady_clock::now() - start < std::chrono::seconds(5), "it was waited for");
  EXPECT(bench.verdict(job) == kFailed, "it ended with %u", bench.verdict(job));
  EXPECT(bench.code_of([&] { bench.submit({2}, {2}); }) == std::string(kCuda), "it is lost");
  plant("");
}

/// Work that never ends: waits for it give up, and its memory is kept. A lane beside it continues
/// and can be closed, and its memory is freed. This is the last test, because the GPU is unusable
/// afterwards.
inline void test_hang() {
  DeviceLaneOptions options = options_of(CopyMode::kKernel);
  CudaBench other(options);
  options.patience_ms = 100;
  CudaBench bench(options);
  const std::size_t before = gpu_shim::device_bytes_in_use();
  plant("hang=1");
  const u32 job = bench.submit({1}, {1});
  const auto start = std::chrono::steady_clock::now();
  bench.flush({static_cast<std::int32_t>(job)});
  bench.lane->fence();
  bench.lane.reset();
  const u32 beside = other.submit({1}, {2});
  other.flush({static_cast<std::int32_t>(beside)});
  EXPECT(other.verdict(beside) == kOk && holds(*other.target, 2, 1, 1), "it ended with %u", other.verdict(beside));
  other.lane.reset();
  other.source.reset();
  other.target.reset();
  EXPECT(std::chrono::steady_clock::now() - start < std::chrono::seconds(5), "it was waited for");
  EXPECT(bench.verdict(job) == kFailed, "it ended with %u", bench.verdict(job));
  bench.source.reset();
  bench.target.reset();
  // The other lane's memory is freed in stream order, this lane's never.
  const std::size_t left = before - kBlocks * kBytes;
  for (u32 turn = 0; turn < 2000 && gpu_shim::device_bytes_in_use() > left; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT(gpu_shim::device_bytes_in_use() == left, "%zu bytes instead of %zu: its memory was freed, or nobody's",
         gpu_shim::device_bytes_in_use(), left);
  EXPECT(gpu_code::abandoned_bytes() >= 2 * kBlocks * kBytes, "%llu bytes are said to stay", wide(gpu_code::abandoned_bytes()));
}

}  // namespace blockstep::test
