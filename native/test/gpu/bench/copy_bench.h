// Lanes between pinned memory and the GPU against one large copy of as many bytes, and how long after a copy its word is seen.
#pragma once

#include <atomic>
#include <iterator>

#include "../../../cuda/base/backend.h"
#include "../../../cuda/kernels/copy.h"
#include "../../../cuda/memory/memory.h"
#include "../../../transfer/completion_ring.h"
#include "../../../transfer/lane/device_lane.h"
#include "../../support/support.h"
#include "figures.h"
#include "kernels/matrix_product.h"

namespace blockstep::bench {

/// What one job copies, and what lies on each side: every job takes other blocks, in no order, so that no two are one run.
constexpr u64 kJobBytes = u64{8} << 20;
constexpr u64 kBlockBytes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20};

class CopyBench {
 public:
  /// @param job_bytes what one job copies; an arena holds eight
  /// @param beside_bytes of the copies beside which lanes are measured
  CopyBench(u32 device, u64 job_bytes, u64 beside_bytes)
      : device_(device), job_bytes_(job_bytes), arena_bytes_(8 * job_bytes), beside_bytes_(beside_bytes) {}

  /// @param sizes so many of kBlockBytes, the smallest first
  void run(const Effort& effort, std::size_t sizes) {
    for (const bool to_gpu : {true, false}) {
      for (std::size_t i = 0; i < sizes; ++i) {
        measure(to_gpu, kBlockBytes[i], each(effort), Beside::kIdle);
        measure_ways(to_gpu, kBlockBytes[i], each(effort));
      }
      measure_thread_blocks(to_gpu, kBlockBytes[std::min<std::size_t>(sizes - 1, 2)], each(effort));
    }
    measure_word(effort);
  }

  /// Lanes beside other copies from the host. A lane is opened before those begin: here its copies are measured.
  void run_beside(const Effort& effort, std::size_t sizes) {
    for (const bool to_gpu : {true, false}) {
      for (const u64 bytes : {kBlockBytes[0], kBlockBytes[2], kBlockBytes[5]}) {
        if (bytes <= kBlockBytes[sizes - 1]) measure(to_gpu, bytes, each(effort), Beside::kCopies);
      }
    }
  }

 private:
  static Effort each(Effort effort) {
    effort.most /= 3;
    return effort;
  }

  std::shared_ptr<BlockArena> arena(Place place, u64 block_bytes) const {
    const u32 blocks = static_cast<u32>(arena_bytes_ / block_bytes);
    return std::make_shared<BlockArena>(blocks, block_bytes, cuda::allocate_blocks(place, device_, arena_bytes_));
  }

  /// A lane and one cudaMemcpyAsync by turns, so that whatever else goes on meets both.
  void measure(bool to_gpu, u64 block_bytes, const Effort& effort, Beside beside) {
    const auto source = arena(to_gpu ? Place::kPinned : Place::kDevice, block_bytes);
    const auto target = arena(to_gpu ? Place::kDevice : Place::kPinned, block_bytes);
    const auto ring = std::make_shared<CompletionRing>(4);
    const auto lane = cuda::open_lane(ring, source, target, {});
    const u32 blocks = static_cast<u32>(job_bytes_ / block_bytes);
    const cuda::OnDevice on(static_cast<int>(device_));
    const cuda::Stream stream;
    const cuda::Event over;
    announce("lane" + where(to_gpu) + ", blocks of " + std::to_string(block_bytes), name_of(beside));
    const Busy busy(beside, static_cast<int>(device_), 64, beside_bytes_);
    Samples by_lane;
    Samples by_copy;
    repeat(effort, [&](bool counts) {
      const std::vector<std::int32_t> sources = some_blocks(source->num_blocks(), blocks);
      const std::vector<std::int32_t> targets = some_blocks(source->num_blocks(), blocks);
      auto start = Clock::now();
      lane->submit({sources.data(), blocks}, {targets.data(), blocks}, Lane::kNoFence);
      wait_for_word(*ring);
      if (counts) by_lane.add(Clock::now() - start);

      const u64 at = random_.below(8) * job_bytes_;
      start = Clock::now();
      const cudaMemcpyKind kind = to_gpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
      cuda::require(cudaMemcpyAsync(target->base() + at, source->base() + at, job_bytes_, kind, stream.get()),
                    "cudaMemcpyAsync");
      cuda::require(cudaEventRecord(over.get(), stream.get()), "cudaEventRecord");
      const auto given = Clock::now();
      while (cudaEventQuery(over.get()) == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError());
        if (Clock::now() - given > kMostOfOne) throw Error{kCuda, "a copy did not end within 5 s"};
      }
      if (counts) by_copy.add(Clock::now() - start);
    });
    print({"lane" + where(to_gpu), nullptr, name_of(beside), 0, block_bytes, job_bytes_}, by_lane);
    print({"one cudaMemcpyAsync" + where(to_gpu), nullptr, name_of(beside), 0, block_bytes, job_bytes_}, by_copy);
  }

  /// The ways that a lane chooses between, by turns.
  void measure_ways(bool to_gpu, u64 block_bytes, const Effort& effort) {
    const auto source = arena(to_gpu ? Place::kPinned : Place::kDevice, block_bytes);
    const auto target = arena(to_gpu ? Place::kDevice : Place::kPinned, block_bytes);
    const u32 blocks = static_cast<u32>(job_bytes_ / block_bytes);
    struct Way {
      const char* name;
      CopyMode mode;
      std::shared_ptr<CompletionRing> ring = std::make_shared<CompletionRing>(4);
      std::unique_ptr<DeviceLane> lane{};
      Samples samples{};
    };
    Way ways[] = {{"lane by the kernel", CopyMode::kKernel}, {"lane by batches", CopyMode::kBatch}};
    for (Way& way : ways) {
      DeviceLaneOptions options;
      options.mode = way.mode;
      way.lane = cuda::open_lane(way.ring, source, target, options);
    }
    repeat(effort, [&](bool counts) {
      const std::vector<std::int32_t> sources = some_blocks(source->num_blocks(), blocks);
      const std::vector<std::int32_t> targets = some_blocks(source->num_blocks(), blocks);
      for (Way& way : ways) {
        const auto start = Clock::now();
        way.lane->submit({sources.data(), blocks}, {targets.data(), blocks}, Lane::kNoFence);
        wait_for_word(*way.ring);
        if (counts) way.samples.add(Clock::now() - start);
      }
    });
    for (Way& way : ways) print({way.name + where(to_gpu), nullptr, "idle", 0, block_bytes, job_bytes_}, way.samples);
  }

  /// The kernel of a lane in launches of more thread blocks than a lane's, which leave less of the GPU to others.
  void measure_thread_blocks(bool to_gpu, u64 block_bytes, const Effort& effort) {
    const auto source = arena(to_gpu ? Place::kPinned : Place::kDevice, block_bytes);
    const auto target = arena(to_gpu ? Place::kDevice : Place::kPinned, block_bytes);
    const u32 blocks = static_cast<u32>(job_bytes_ / block_bytes);
    const cuda::OnDevice on(static_cast<int>(device_));
    const cuda::Stream stream(cuda::Priority::kLowest);
    const cuda::Event over;
    auto letter = std::make_unique<cuda::CopyLetter<cuda::kLargePairs>>();
    letter->source = source->on_device();
    letter->target = target->on_device();
    letter->quads = static_cast<u32>(block_bytes / 16);
    letter->count = blocks;
    constexpr u32 kThreadBlocks[] = {cuda::kCopyBlocks, 2 * cuda::kCopyBlocks, 4 * cuda::kCopyBlocks};
    Samples samples[std::size(kThreadBlocks)];
    repeat(effort, [&](bool counts) {
      const std::vector<std::int32_t> sources = some_blocks(source->num_blocks(), blocks);
      const std::vector<std::int32_t> targets = some_blocks(source->num_blocks(), blocks);
      for (u32 i = 0; i < blocks; ++i) letter->pairs[i] = {static_cast<u32>(sources[i]), static_cast<u32>(targets[i])};
      for (std::size_t i = 0; i < std::size(kThreadBlocks); ++i) {
        void* arguments[] = {letter.get()};
        const auto start = Clock::now();
        cuda::require(cudaLaunchKernel(cuda::copy_kernels().large, dim3(kThreadBlocks[i]), dim3(cuda::kThreads), arguments, 0,
                                       stream.get()), "launch of copy");
        cuda::require(cudaEventRecord(over.get(), stream.get()), "cudaEventRecord");
        while (cudaEventQuery(over.get()) == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
        if (counts) samples[i].add(Clock::now() - start);
      }
    });
    for (std::size_t i = 0; i < std::size(kThreadBlocks); ++i) {
      const std::string name = "copy by " + std::to_string(kThreadBlocks[i]) + " thread blocks" + where(to_gpu);
      print({name, nullptr, "idle", 0, block_bytes, job_bytes_}, samples[i]);
    }
  }

  static std::string where(bool to_gpu) { return to_gpu ? " to the GPU" : " from the GPU"; }

  /// From when the last bytes of a quarter of a job, 2 MiB, are seen on the host to when its job is drained.
  void measure_word(const Effort& effort) {
    const u64 block_bytes = job_bytes_ / 4;
    const auto source = arena(Place::kDevice, block_bytes);
    const auto target = arena(Place::kPinned, block_bytes);
    const auto ring = std::make_shared<CompletionRing>(4);
    const auto lane = cuda::open_lane(ring, source, target, {});
    source->write_block(0, std::vector<u8>(block_bytes, 1).data());
    auto& last = *reinterpret_cast<std::atomic<u64>*>(target->base() + block_bytes - sizeof(u64));
    Samples delay;
    repeat(effort, [&](bool counts) {
      last.store(0, std::memory_order_release);
      const std::int32_t block = 0;
      lane->submit({&block, 1}, {&block, 1}, Lane::kNoFence);
      while (last.load(std::memory_order_acquire) == 0) {
      }
      const auto seen = Clock::now();
      wait_for_word(*ring);
      if (counts) delay.add(Clock::now() - seen);
    });
    print({"end of a copy to its word"}, delay);
  }

  static void wait_for_word(CompletionRing& ring) {
    std::int32_t pair[2] = {};
    const auto start = Clock::now();
    while (ring.drain(pair, 1).pairs == 0) {
      if (Clock::now() - start > kMostOfOne) throw Error{kCuda, "the copies of a lane did not end within 5 s"};
    }
    EXPECT(pair[1] == static_cast<std::int32_t>(Verdict::kOk), "a copy ended with verdict %d", pair[1]);
  }

  /// So many different blocks, in random order.
  std::vector<std::int32_t> some_blocks(u32 of, u32 count) {
    std::vector<std::int32_t> all(of);
    for (u32 i = 0; i < of; ++i) all[i] = static_cast<std::int32_t>(i);
    for (u32 i = 0; i < count; ++i) std::swap(all[i], all[i + random_.below(of - i)]);
    all.resize(count);
    return all;
  }

  const u32 device_;
  const u64 job_bytes_;
  const u64 arena_bytes_;
  const u64 beside_bytes_;
  test::Random random_{1};
};

}  // namespace blockstep::bench
