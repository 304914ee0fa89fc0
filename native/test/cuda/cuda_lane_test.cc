// CUDA lanes on an emulated GPU. The tests cover the guarantees of every lane, with every copy mode
// and completion mode. They also cover the window, the steps, and a GPU that fails, is lost or
// hangs.
#include "../gpu_shim/runtime/stream.h"
#include "../transfer/lane_contract.h"
#include "cuda_lane_bench.h"
#include "cuda_lane_failures.h"
#include "cuda_lane_steps.h"

using namespace blockstep;
using namespace blockstep::test;
namespace {

/// Blocks of every size by the kernel, scattered, in small and large launches.
void test_kernel(u32 rounds) {
  Random random(21);
  for (u32 round = 0; round < rounds; ++round) {
    const u64 bytes = 16 * (round % 3 == 0 ? 1 + random.below(5) : 1 + random.below(1500));
    const u32 blocks = 2 + random.below(round % 3 == 0 ? 5000 : 40);
    const auto source = make_arena(round % 2 ? Place::kDevice : Place::kPinned, blocks, bytes);
    const auto target = make_arena(round % 2 ? Place::kPinned : Place::kDevice, blocks, bytes);
    for (u32 block = 0; block < blocks; ++block) fill(*source, block, 1);
    const auto ring = std::make_shared<CompletionRing>(4);
    const auto lane = gpu_code::open_lane(ring, source, target, options_of(CopyMode::kKernel));
    std::vector<std::int32_t> from;
    std::vector<std::int32_t> to;
    for (u32 block = 0; block < blocks; ++block) {
      if (random.one_in(7)) continue;
      from.push_back(static_cast<std::int32_t>(random.below(blocks)));
      to.push_back(static_cast<std::int32_t>(blocks - 1 - block));
    }
    if (to.empty()) continue;
    const auto count = static_cast<u32>(to.size());
    const auto job = static_cast<std::int32_t>(lane->submit({from.data(), count}, {to.data(), count}, Lane::kNoFence));
    lane->flush({&job, 1});
    std::vector<std::int32_t> origin(blocks, -1);
    for (u32 i = 0; i < count; ++i) origin[static_cast<u32>(to[i])] = from[i];
    const std::vector<u8> untouched(bytes);
    for (u32 block = 0; block < blocks; ++block) {
      const bool good = origin[block] >= 0 ? holds(*target, block, static_cast<u32>(origin[block]), 1)
                                           : std::equal(untouched.begin(), untouched.end(), target->block(block));
      EXPECT(good, "block %u of %u of %llu bytes", block, blocks, wide(bytes));
    }
  }
}

/// Which engine copies: the first launch of a lane is skipped, so the copies of its kernel are
/// missing.
void test_ways() {
  const auto came = [](CopyMode mode) {
    CudaBench bench(options_of(mode));
    plant("skip=1");
    bench.flush({static_cast<std::int32_t>(bench.submit({1, 3, 4, 7, 8, 9}, {1, 3, 4, 7, 8, 9}))});
    plant("");
    std::string found;
    for (const u32 block : {1u, 3u, 7u}) found += holds(*bench.target, block, block, 1) ? 'c' : 'k';
    return found;
  };
  EXPECT(came(CopyMode::kBatch) == "ccc" && came(CopyMode::kCopies) == "ccc", "no kernel");
  EXPECT(came(CopyMode::kKernel) == "kkk" && came(CopyMode::kAuto) == "kkk", "the kernel alone");
}

/// A step has priority over a lane's copies.
void test_priority() {
  constexpr int kHighest = -5;
  const int low = gpu_shim::live_streams(0);
  const int high = gpu_shim::live_streams(kHighest);
  CudaBench bench(options_of(CopyMode::kKernel));
  EXPECT(gpu_shim::live_streams(0) == low + 1 && gpu_shim::live_streams(kHighest) == high, "a lane competes with steps");
  const auto core = gpu_code::open({64, 8, 16, 0}, {});
  EXPECT(gpu_shim::live_streams(kHighest) == high + 1, "a step waits for others");
}

/// The information that a lane reports about itself.
void test_info() {
  DeviceLaneOptions options;
  for (const Place to : {Place::kDevice, Place::kPinned}) {
    for (const CopyMode mode : {CopyMode::kAuto, CopyMode::kBatch}) {
      CudaBench bench(options_of(mode), to == Place::kDevice ? Place::kPinned : Place::kDevice, to);
      const DeviceLaneInfo& info = bench.cuda().info();
      EXPECT(info.mode == (mode == CopyMode::kBatch ? mode : CopyMode::kKernel), "what it found");
      EXPECT(info.completion == CompletionMode::kWriteValue, "how it tells");
      for (u32 block = 0; block < kBlocks; ++block) EXPECT(holds(*bench.target, block, block, 2), "block %u was written", block);
    }
  }
  CudaBench on_device(options, Place::kDevice, Place::kDevice);
  EXPECT(on_device.cuda().info().mode == CopyMode::kKernel, "on one GPU");
  CudaBench by_events(options_of(CopyMode::kBatch, CompletionMode::kEvent));
  EXPECT(by_events.cuda().info().completion == CompletionMode::kEvent, "events that were asked for");
  plant("storeless");
  CudaBench storeless(options_of(CopyMode::kBatch));
  EXPECT(storeless.cuda().info().completion == CompletionMode::kEvent, "a GPU that cannot store");
  storeless.flush({static_cast<std::int32_t>(storeless.submit({1}, {2}))});
  EXPECT(holds(*storeless.target, 2, 1, 1), "by events");
  const auto forced = [] { CudaBench bench(options_of(CopyMode::kBatch, CompletionMode::kWriteValue)); };
  EXPECT(storeless.code_of(forced) == std::string(kCuda), "stores where there are none");
  plant("");
}

void test_arenas() {
  const auto ring = std::make_shared<CompletionRing>(4);
  const auto code = [&](std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target, CopyMode mode) {
    try {
      gpu_code::open_lane(ring, source, target, options_of(mode));
    } catch (const Error& error) {
      return std::string(error.code);
    }
    return std::string("none");
  };
  const auto host = std::make_shared<BlockArena>(kBlocks, kBytes);
  const auto pinned = make_arena(Place::kPinned);
  const auto device = make_arena(Place::kDevice);
  EXPECT(code(host, device, CopyMode::kBatch) == kBadArg && code(device, host, CopyMode::kBatch) == kBadArg, "pageable memory");
  EXPECT(code(pinned, make_arena(Place::kPinned), CopyMode::kBatch) == kBadArg, "no GPU");
  const auto odd = [](Place place) { return make_arena(place, 4, 72); };
  EXPECT(code(odd(Place::kPinned), odd(Place::kDevice), CopyMode::kKernel) == kBadArg, "8 bytes at a time");
  EXPECT(code(odd(Place::kPinned), odd(Place::kDevice), CopyMode::kBatch) == "none", "bytes");
  plant("devices=2");
  const auto other = std::make_shared<BlockArena>(kBlocks, kBytes, gpu_code::allocate_blocks(Place::kDevice, 1, kBlocks * kBytes));
  EXPECT(code(device, other, CopyMode::kKernel) == kBadArg, "two GPUs");
  plant("");
  std::vector<u8> bytes(kBytes, 7);
  device->write_block(3, bytes.data());
  bytes.assign(kBytes, 0);
  device->read_block(3, bytes.data());
  EXPECT(bytes[0] == 7 && bytes[kBytes - 1] == 7, "a block of a GPU");
}

/// Pieces that the window held back are not copied if their job is cancelled or fenced.
void test_window() {
  for (const bool fenced : {false, true}) {
    DeviceLaneOptions options = options_of(CopyMode::kBatch);
    options.piece_bytes = 4 * kBytes;
    options.window_bytes = 8 * kBytes;  // two pieces
    CudaBench bench(options);
    if (!fenced) plant("hold");  // cancel() first notes completed work, a fence does not
    const u32 job = bench.submit(all_blocks(), all_blocks());
    const u32 next = bench.submit({1}, {2});
    if (fenced) bench.lane->fence();
    else EXPECT(bench.lane->cancel(job), "it has begun");
    plant("");
    if (!fenced) bench.flush({static_cast<std::int32_t>(job)});
    EXPECT(bench.verdict(job) == kCancelled, "it ended with %u", bench.verdict(job));
    if (!fenced) bench.flush({static_cast<std::int32_t>(next)});
    const u64 bytes = bench.lane->traffic().bytes;
    EXPECT(bytes == (fenced ? 8 : 9) * kBytes, "%llu bytes", wide(bytes));
    EXPECT(bench.verdict(next) == (fenced ? kCancelled : kOk), "the one behind it");
    for (u32 block = 8; block < kBlocks; ++block) EXPECT(holds(*bench.target, block, block, 2), "block %u", block);
    for (u32 block = 3; block < 8; ++block) EXPECT(holds(*bench.target, block, block, 1), "block %u", block);
    // A job that was queued as a whole is copied as a whole.
    const std::vector<std::int32_t> both{20, 21, 22, 23, 24, 25, 26, 27};
    plant("hold");
    const u32 given = bench.submit(both, both);
    EXPECT(bench.lane->cancel(given), "it is not over");
    plant("");
    bench.lane->fence();
    EXPECT(bench.verdict(given) == kOk && holds(*bench.target, 21, 21, 1), "it ended with %u", bench.verdict(given));
  }
}

/// One call queues at most its limit of runs, and later calls continue until all are copied.
void test_calls() {
  DeviceLaneOptions options = options_of(CopyMode::kBatch);
  options.runs_per_call = 4;
  CudaBench bench(options);
  std::vector<std::int32_t> apart;
  for (std::int32_t block = 0; block < 40; block += 2) apart.push_back(block);
  plant("hold");
  const u32 job = bench.submit(apart, apart);
  EXPECT(bench.lane->cancel(job), "it has begun");
  plant("");
  bench.flush({static_cast<std::int32_t>(job)});
  // Four runs by submit(), and four by cancel(), which first continues the queueing like every
  // call.
  EXPECT(bench.lane->traffic().copies == 8, "%llu copies in two calls", wide(bench.lane->traffic().copies));
  const u32 whole = bench.submit(apart, apart);
  bench.flush({static_cast<std::int32_t>(whole)});
  EXPECT(bench.verdict(whole) == kOk && bench.lane->traffic().copies >= 20, "it ended with %u", bench.verdict(whole));
  for (const std::int32_t block : apart) EXPECT(holds(*bench.target, static_cast<u32>(block), static_cast<u32>(block), 1), "block %d", block);
}

/// Pieces that the window held back are not copied when the lane ends. No more pieces are queued
/// than there are marks.
void test_ends() {
  DeviceLaneOptions options = options_of(CopyMode::kCopies);
  options.piece_bytes = kBytes;
  CudaBench many(options);
  std::vector<std::int32_t> jobs;
  plant("hold");
  for (u32 i = 0; i < 4; ++i) jobs.push_back(static_cast<std::int32_t>(many.submit(all_blocks(), all_blocks())));
  plant("");
  many.flush(jobs);
  for (const std::int32_t job : jobs) EXPECT(many.verdict(static_cast<u32>(job)) == kOk, "job %d", job);
  EXPECT(many.lane->traffic().copies == 4 * kBlocks && many.target->arrivals(7) == 4, "pieces were lost");
  options.window_bytes = 1;  // one piece at a time
  CudaBench single(options);
  const u32 slow = single.submit(all_blocks(), all_blocks());
  single.flush({static_cast<std::int32_t>(slow)});
  EXPECT(single.verdict(slow) == kOk, "it ended with %u", single.verdict(slow));
  options.window_bytes = 2 * kBytes;
  CudaBench bench(options);
  const u32 job = bench.submit(all_blocks(), all_blocks());
  bench.lane.reset();
  EXPECT(bench.verdict(job) == kCancelled && holds(*bench.target, 50, 50, 2), "it ended with %u", bench.verdict(job));
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<u32>(argument(argc, argv, 1, 10));
  // Each fails once; fewer if threads are slow.
  const auto calls = static_cast<u32>(argument(argc, argv, 2, 60));
  plant("");
  test_arenas();
  test_priority();
  test_info();
  test_ways();
  test_kernel(3 * rounds);
  test_window();
  test_calls();
  test_ends();
  test_steps();
  test_steps_apart();
  test_many_steps();
  test_contract(cuda_lanes(Place::kPinned, Place::kDevice), rounds);
  test_contract(cuda_lanes(Place::kDevice, Place::kPinned), rounds);
  test_contract(cuda_lanes(Place::kDevice, Place::kDevice), rounds);
  for (const CopyMode mode : {CopyMode::kKernel, CopyMode::kBatch}) test_failed_calls(calls, mode);
  test_lost();
  test_silent();
  test_hang();
  std::fflush(stdout);
  std::_Exit(0);  // does not wait for hanging work
}
