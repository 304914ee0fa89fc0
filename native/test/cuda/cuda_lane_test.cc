// CUDA lanes on an emulated GPU: what every lane promises, whatever the way of copying and of telling; the window, the steps,
// and a GPU that fails, is lost or hangs.
#include "../../cuda/base/backend.h"
#include "../../cuda/copies/calibrate.h"
#include "../gpu_shim/runtime/faults.h"
#include "../gpu_shim/runtime/memory.h"
#include "../transfer/lane_contract.h"

using namespace blockstep;
using namespace blockstep::test;
namespace gpu_code = blockstep::cuda;
using gpu_code::Event;
using gpu_code::Stream;

namespace {

constexpr u32 kFailed = static_cast<u32>(Verdict::kFailed);

/// What goes wrong on the emulated GPU from now on, beside that the host may read its memory.
void plant(const std::string& faults) { setenv("EMULATED_GPU", ("unguarded," + faults).c_str(), 1); }

std::shared_ptr<BlockArena> make_arena(Place place, u32 blocks = kBlocks, u64 bytes = kBytes) {
  return std::make_shared<BlockArena>(blocks, bytes, gpu_code::allocate_blocks(place, 0, blocks * bytes));
}

DeviceLaneOptions options_of(CopyMode mode, CompletionMode completion = CompletionMode::kAuto) {
  DeviceLaneOptions options;
  options.mode = mode;
  options.completion = completion;
  options.cut = mode == CopyMode::kAuto ? std::optional<u32>(2 * kBytes) : std::nullopt;
  return options;
}

/// Lanes from one place to another, with every way of copying and of telling.
LaneKind cuda_lanes(Place source, Place target) {
  const auto make = [](auto ring, auto from, auto to, u64 piece_bytes, Random& random) {
    DeviceLaneOptions options = options_of(static_cast<CopyMode>(random.below(4)), static_cast<CompletionMode>(random.below(3)));
    options.piece_bytes = piece_bytes;
    options.window_bytes = 1 + random.below(40 * kBytes);
    return gpu_code::open_lane(ring, from, to, options);
  };
  return {[source](u32 blocks, u64 bytes) { return make_arena(source, blocks, bytes); },
          [target](u32 blocks, u64 bytes) { return make_arena(target, blocks, bytes); }, make};
}

/// One lane of these options between arenas of its own.
struct CudaBench : Bench {
  explicit CudaBench(const DeviceLaneOptions& options, Place from = Place::kPinned, Place to = Place::kDevice)
      : Bench(kind_of(options, from, to), options.piece_bytes, unused()) {}
  DeviceLane& cuda() { return static_cast<DeviceLane&>(*lane); }

 private:
  static LaneKind kind_of(const DeviceLaneOptions& options, Place from, Place to) {
    LaneKind kind = cuda_lanes(from, to);
    kind.make = [options](auto ring, auto source, auto target, u64, Random&) {
      return gpu_code::open_lane(ring, source, target, options);
    };
    return kind;
  }
  static Random& unused() {
    static Random random(1);
    return random;
  }
};

std::vector<std::int32_t> all_blocks() {
  std::vector<std::int32_t> all(kBlocks);
  for (u32 i = 0; i < kBlocks; ++i) all[i] = static_cast<std::int32_t>(i);
  return all;
}

/// Blocks of every size by the kernel, scattered, in small and in large launches.
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

/// Who copies what: the first launch of a lane does nothing, so what its kernel was to copy is not there.
void test_cut() {
  const auto came = [](CopyMode mode, std::optional<u32> cut) {
    DeviceLaneOptions options = options_of(mode);
    options.cut = cut;
    CudaBench bench(options);
    plant("skip=1");
    bench.flush({static_cast<std::int32_t>(bench.submit({1, 3, 4, 7, 8, 9}, {1, 3, 4, 7, 8, 9}))});
    plant("");
    std::string found;
    for (const u32 block : {1u, 3u, 7u}) found += holds(*bench.target, block, block, 1) ? 'c' : 'k';
    return found;
  };
  EXPECT(came(CopyMode::kAuto, 3 * kBytes) == "kkc", "runs of one, two and three blocks");
  EXPECT(came(CopyMode::kAuto, 2 * kBytes) == "kcc", "runs of one, two and three blocks");
  EXPECT(came(CopyMode::kAuto, 0) == "ccc" && came(CopyMode::kBatch, {}) == "ccc" && came(CopyMode::kCopies, {}) == "ccc",
         "no kernel");
  EXPECT(came(CopyMode::kKernel, {}) == "kkk", "the kernel alone");
  for (const double small : {1.0, 1.5}) EXPECT(gpu_code::break_even(small, 0.5) == 0, "%f", small);
  EXPECT(gpu_code::break_even(0.5, 0.9) == 28 * 1024, "the kernel wins at both");
  const u32 between = gpu_code::break_even(0.5, 2);
  EXPECT(between > 10000 && between < 10060, "4096 * sqrt(6), got %u", between);
  EXPECT(gpu_code::break_even(0.5, 8) < between, "a kernel that is slower sooner");
}

/// What a lane says of itself.
void test_info() {
  DeviceLaneOptions options;
  for (const Place to : {Place::kDevice, Place::kPinned}) {
    CudaBench bench(options, to == Place::kDevice ? Place::kPinned : Place::kDevice, to);
    const DeviceLaneInfo& info = bench.cuda().info();
    EXPECT(info.mode == CopyMode::kBatch && info.completion == CompletionMode::kWriteValue, "what it found");
    EXPECT(info.calibration_ms > 0, "nothing was measured");
    for (const auto& cut : info.cuts) EXPECT(cut.bytes <= 28 * 1024, "%u bytes", cut.bytes);
    for (u32 block = 0; block < kBlocks; ++block) EXPECT(holds(*bench.target, block, block, 2), "block %u was written", block);
  }
  CudaBench on_device(options, Place::kDevice, Place::kDevice);
  EXPECT(on_device.cuda().info().mode == CopyMode::kKernel && on_device.cuda().info().calibration_ms == 0, "on one GPU");
  CudaBench by_events(options_of(CopyMode::kBatch, CompletionMode::kEvent));
  EXPECT(by_events.cuda().info().completion == CompletionMode::kEvent, "events that were asked for");
  plant("lose=1");
  EXPECT(by_events.code_of([&] { CudaBench bench(options); }) == std::string(kCuda), "lost while it measures");
  plant("storeless");
  CudaBench storeless(options_of(CopyMode::kBatch));
  EXPECT(storeless.cuda().info().completion == CompletionMode::kEvent, "a GPU that cannot store");
  storeless.flush({static_cast<std::int32_t>(storeless.submit({1}, {2}))});
  EXPECT(holds(*storeless.target, 2, 1, 1), "by events");
  const auto forced = [] { CudaBench bench(options_of(CopyMode::kBatch, CompletionMode::kWriteValue)); };
  EXPECT(storeless.code_of(forced) == std::string(kCuda), "stores where there are none");
  plant("memory=100000");
  CudaBench full(options);  // which measures nothing, and takes what is usual
  EXPECT(full.cuda().info().cuts[0].bytes == 28 * 1024, "%u bytes", full.cuda().info().cuts[0].bytes);
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

/// Of a job that has begun, what the window kept back is not copied when it is cancelled or fenced.
void test_window() {
  for (const bool fenced : {false, true}) {
    DeviceLaneOptions options = options_of(CopyMode::kBatch);
    options.piece_bytes = 4 * kBytes;
    options.window_bytes = 8 * kBytes;  // two pieces
    CudaBench bench(options);
    if (!fenced) plant("hold");  // cancel() notes first what is done; a fence does not
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
    // Given as a whole, it is copied as a whole.
    const std::vector<std::int32_t> both{20, 21, 22, 23, 24, 25, 26, 27};
    plant("hold");
    const u32 given = bench.submit(both, both);
    EXPECT(bench.lane->cancel(given), "it is not over");
    plant("");
    bench.lane->fence();
    EXPECT(bench.verdict(given) == kOk && holds(*bench.target, 21, 21, 1), "it ended with %u", bench.verdict(given));
  }
}

/// What the window kept back is not copied when the lane ends, and no more is given than there are marks for.
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

/// The executor's side: it overwrites a block of the source, late.
void write_late(const Stream& stream, BlockArena& arena, u32 block, u8 value) {
  gpu_code::require(cudaMemsetAsync(arena.block(block), value, arena.bytes_per_block(), stream.get()), "cudaMemsetAsync");
}

/// Jobs of a recorded step come behind its work, without a word of the host.
void test_steps() {
  for (const Place from : {Place::kPinned, Place::kDevice}) {
    for (const CopyMode mode : {CopyMode::kBatch, CopyMode::kCopies, CopyMode::kKernel}) {
      const Stream executor;
      const u64 theirs = reinterpret_cast<std::uintptr_t>(executor.get());
      CudaBench bench(options_of(mode), from, from == Place::kPinned ? Place::kDevice : Place::kPinned);
      const auto byte = [&](u32 block) { return *bench.target->block(block); };
      bench.lane->settle(1);
      const u32 before = bench.submit({1}, {1}, 5);
      const u32 later = bench.submit({2}, {2}, 7);
      bench.flush({static_cast<std::int32_t>(bench.submit({3}, {3}))});  // overtakes them
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
      bench.lane->settle(3);  // behind what is recorded
      bench.flush({job});
      EXPECT(byte(2) == 0xa2 && bench.verdict(later) == kOk, "copied before step 7 was executed");
      bench.cuda().record_step(5, theirs);  // nor does this
      bench.flush({static_cast<std::int32_t>(bench.submit({5}, {5}, 7))});
      EXPECT(bench.lane->waiting() == 0, "step 7 is recorded");
      plant("");
    }
  }
}

/// A job waits for its own step and not for later ones, however far behind they are. A step that could not be recorded is
/// waited for as if nobody had tried.
void test_steps_apart() {
  const Stream executor;
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

/// The event of an early step is gone when many were recorded since: a later one stands in for it.
void test_many_steps() {
  const Stream executor;
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
}

/// Jobs of all sorts while one call of CUDA or one question fails: what is said to be copied is, and every job is over once.
/// @returns the verdicts
std::vector<u32> live_with(CudaBench& bench, u64 executor, const std::string& fault) {
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

/// One call of CUDA or one question fails, whichever it is: a job, or the lane, and never more than that.
void test_failed_calls(u32 calls) {
  u32 failed = 0;
  u32 lost = 0;
  u32 stores = 0;  // that could not be given, as the lane says
  for (const CompletionMode completion : {CompletionMode::kWriteValue, CompletionMode::kEvent}) {
    const Stream executor;
    const u64 theirs = reinterpret_cast<std::uintptr_t>(executor.get());
    DeviceLaneOptions options = options_of(CopyMode::kAuto, completion);
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

/// The device is lost: every job fails, nothing waits, and the lane says so from then on.
void test_lost() {
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

/// What the GPU says does not come, although it has done its work.
void test_silent() {
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

/// Work that never ends: what waits for it gives up, and its memory stays. A lane beside it works on and can be closed,
/// although CUDA frees no memory any more. The last test, since the GPU is of no use then.
void test_hang() {
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
  EXPECT(gpu_shim::device_bytes_in_use() == before, "its memory was freed");
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<u32>(argument(argc, argv, 1, 10));
  const auto calls = static_cast<u32>(argument(argc, argv, 2, 60));  // each fails once; fewer where threads are dear
  plant("");
  test_arenas();
  test_info();
  test_cut();
  test_kernel(3 * rounds);
  test_window();
  test_ends();
  test_steps();
  test_steps_apart();
  test_many_steps();
  test_contract(cuda_lanes(Place::kPinned, Place::kDevice), rounds);
  test_contract(cuda_lanes(Place::kDevice, Place::kPinned), rounds);
  test_contract(cuda_lanes(Place::kDevice, Place::kDevice), rounds);
  test_failed_calls(calls);
  test_lost();
  test_silent();
  test_hang();
  std::fflush(stdout);
  std::_Exit(0);  // what hangs is not waited for
}
