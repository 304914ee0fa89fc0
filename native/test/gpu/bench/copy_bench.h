// Compares lanes between pinned memory and the GPU with one large copy, and measures the delay from
// a copy to its visible word.
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

/// Bytes of one job, and blocks of each side. Every job takes different blocks in random order, so
/// that no two blocks form a run.
constexpr u64 kJobBytes = u64{8} << 20;
constexpr u64 kBlockBytes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20};

/// Maximum wait of a job beside endless work.
constexpr std::chrono::milliseconds kCut{200};

class CopyBench {
 public:
  /// @param job_bytes bytes of one job; an arena holds eight jobs
  /// @param side, beside_bytes sizes of the concurrent matrix products and copies
  CopyBench(u32 device, u64 job_bytes, u32 side, u64 beside_bytes)
      : device_(device), job_bytes_(job_bytes), arena_bytes_(8 * job_bytes), side_(side), beside_bytes_(beside_bytes) {}

  /// @param sizes number of elements of kBlockBytes to measure, smallest first
  void run(const Effort& effort, std::size_t sizes) {
    for (const bool to_gpu : {true, false}) {
      for (std::size_t i = 0; i < sizes; ++i) {
        measure(to_gpu, kBlockBytes[i], each(effort));
      }
      measure_thread_blocks(to_gpu, kBlockBytes[std::min<std::size_t>(sizes - 1, 2)], each(effort));
    }
    measure_word(effort);
  }

  /// Measures each way beside endless work.
  void run_beside(const Effort& effort, std::size_t sizes) {
    for (const Beside beside : {Beside::kCopies, Beside::kCopiesBack, Beside::kProduct, Beside::kPersistent}) {
      for (const bool to_gpu : {true, false}) {
        for (const u64 bytes : {kBlockBytes[0], kBlockBytes[2], kBlockBytes[5]}) {
          if (bytes <= kBlockBytes[sizes - 1]) measure_beside(to_gpu, bytes, each(effort), beside);
        }
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

  /// Measures all ways in turn, so that disturbances affect all of them.
  void measure(bool to_gpu, u64 block_bytes, const Effort& effort) {
    Ways ways(*this, to_gpu, block_bytes);
    Samples samples[Ways::kWays];
    repeat(effort, [&](bool counts) {
      for (std::size_t i = 0; i < Ways::kWays; ++i) {
        const auto start = Clock::now();
        ways.all[i]->start();
        await(*ways.all[i]);
        if (counts) samples[i].add(Clock::now() - start);
      }
    });
    for (std::size_t i = 0; i < Ways::kWays; ++i) {
      print({ways.all[i]->name + where(to_gpu), nullptr, "idle", 0, block_bytes, job_bytes_}, samples[i]);
    }
  }

  /// Measures each way alone, beside new work, because it may wait as long as that work runs. A
  /// sample that takes kCut counts as kCut and ends its row.
  void measure_beside(bool to_gpu, u64 block_bytes, const Effort& effort, Beside beside) {
    Ways ways(*this, to_gpu, block_bytes);
    for (Way* const way : ways.all) {
      const std::string name = way->name + where(to_gpu);
      announce(name + ", blocks of " + std::to_string(block_bytes), name_of(beside));
      Busy busy(beside, static_cast<int>(device_), side_, beside_bytes_);
      Samples samples;
      bool cut = false;
      repeat(effort, [&](bool counts) {
        if (cut) return;
        const auto start = Clock::now();
        way->start();
        while (!way->over() && !cut) cut = Clock::now() - start > kCut;
        if (cut) {
          busy.stop();
          await(*way);
          samples.add(kCut);
        } else if (counts) {
          samples.add(Clock::now() - start);
        }
      });
      print({name, nullptr, name_of(beside), 0, block_bytes, job_bytes_}, samples);
    }
  }

  /// A lane's kernel with more thread blocks than a lane uses, which leave less of the GPU to other
  /// work.
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

  /// One way to copy a job.
  struct Way {
    explicit Way(std::string of) : name(std::move(of)) {}
    virtual ~Way() = default;
    virtual void start() = 0;
    virtual bool over() = 0;
    const std::string name;
  };

  /// A lane, for blocks that change with every job.
  struct LaneWay final : Way {
    LaneWay(CopyBench& of, const char* kind, CopyMode mode, bool to_gpu, u64 block_bytes)
        : Way(kind), bench(of), source(of.arena(to_gpu ? Place::kPinned : Place::kDevice, block_bytes)),
          target(of.arena(to_gpu ? Place::kDevice : Place::kPinned, block_bytes)) {
      DeviceLaneOptions options;
      options.mode = mode;
      lane = cuda::open_lane(ring, source, target, options);
    }
    void start() override {
      const u32 blocks = static_cast<u32>(bench.job_bytes_ / source->bytes_per_block());
      const std::vector<std::int32_t> sources = bench.some_blocks(source->num_blocks(), blocks);
      const std::vector<std::int32_t> targets = bench.some_blocks(source->num_blocks(), blocks);
      lane->submit({sources.data(), blocks}, {targets.data(), blocks}, Lane::kNoFence);
    }
    bool over() override {
      std::int32_t pair[2] = {};
      if (ring->drain(pair, 1).pairs == 0) return false;
      EXPECT(pair[1] == static_cast<std::int32_t>(Verdict::kOk), "a copy ended with verdict %d", pair[1]);
      return true;
    }
    CopyBench& bench;
    const std::shared_ptr<BlockArena> source;
    const std::shared_ptr<BlockArena> target;
    const std::shared_ptr<CompletionRing> ring = std::make_shared<CompletionRing>(4);
    std::unique_ptr<DeviceLane> lane;
  };

  /// One cudaMemcpyAsync of equal size.
  struct OneCopy final : Way {
    OneCopy(CopyBench& of, bool up)
        : Way("one cudaMemcpyAsync"), bench(of), to_gpu(up), source(of.arena(up ? Place::kPinned : Place::kDevice, of.job_bytes_)),
          target(of.arena(up ? Place::kDevice : Place::kPinned, of.job_bytes_)) {}
    void start() override {
      const u64 at = bench.random_.below(8) * bench.job_bytes_;
      cuda::require(cudaMemcpyAsync(target->base() + at, source->base() + at, bench.job_bytes_,
                                    to_gpu ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream.get()), "cudaMemcpyAsync");
      cuda::require(cudaEventRecord(end.get(), stream.get()), "cudaEventRecord");
    }
    bool over() override {
      const cudaError_t status = cuda::query(end.get());
      if (status != cudaErrorNotReady) cuda::require(status, "a copy");
      return status == cudaSuccess;
    }
    CopyBench& bench;
    const bool to_gpu;
    const std::shared_ptr<BlockArena> source;
    const std::shared_ptr<BlockArena> target;
    const cuda::Stream stream;
    const cuda::Event end;
  };

  struct Ways {
    Ways(CopyBench& of, bool to_gpu, u64 block_bytes)
        : by_kernel(of, "lane by the kernel", CopyMode::kKernel, to_gpu, block_bytes),
          by_batches(of, "lane by batches", CopyMode::kBatch, to_gpu, block_bytes),
          by_copy(of, to_gpu) {}
    static constexpr std::size_t kWays = 3;
    LaneWay by_kernel;
    LaneWay by_batches;
    OneCopy by_copy;
    Way* const all[kWays] = {&by_kernel, &by_batches, &by_copy};
  };

  static void await(Way& way) {
    for (const auto start = Clock::now(); !way.over();) {
      if (Clock::now() - start > kMostOfOne) throw Error{kCuda, way.name + ": a job did not end within 5 s"};
    }
  }

  static std::string where(bool to_gpu) { return to_gpu ? " to the GPU" : " from the GPU"; }

  /// Measures the time from when the host sees the last bytes of a quarter of a job, 2 MiB, until
  /// its job is drained.
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

  /// `count` different blocks, in random order.
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
  const u32 side_;
  const u64 beside_bytes_;
  test::Random random_{1};
};

}  // namespace blockstep::bench
