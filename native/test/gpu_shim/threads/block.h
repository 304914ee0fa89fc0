// One thread block of the emulated GPU: the barriers of its threads, and the values that they
// exchange.
//
// A block runs in one of two ways. Fibers switch only at barriers, so they are fast and
// deterministic. Threads (GPU_SHIM_THREADS), one for each thread of the block, are for the
// sanitizers: the thread sanitizer sees a missing barrier. A warp primitive is two barriers of 32
// threads here, which is more order inside a warp than a GPU guarantees. The team of threads
// (thread_team.h) reveals errors that this could hide.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

#if defined(GPU_SHIM_THREADS)
#include <barrier>
#include <thread>
#else
#include "fiber.h"
#endif

#define __device__
#define __host__
#define __global__ static
#define __grid_constant__
#define __launch_bounds__(...)

namespace gpu_shim {

struct Dim {
  unsigned x;
};

#if defined(GPU_SHIM_THREADS)
// All threads of a block share these variables. Only one block runs at a time: see run_grid().
#define __shared__ static
using Barrier = std::barrier<>;
#else
// All fibers of a block belong to one thread, and another block runs in another thread.
#define __shared__ static thread_local
using Barrier = FiberBarrier;
#endif

struct Block {
  struct Warp {
    Barrier barrier{32};
    std::uint64_t said[32] = {};
  };
  explicit Block(unsigned threads) : barrier(threads), warps(std::make_unique<Warp[]>((threads + 31) / 32)) {}
  Barrier barrier;
  std::atomic<int> raised{0};  // the argument of any thread in __syncthreads_or()
  std::unique_ptr<Warp[]> warps;
};

inline thread_local Block* block = nullptr;

}  // namespace gpu_shim

inline thread_local gpu_shim::Dim threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() { gpu_shim::block->barrier.arrive_and_wait(); }
inline int __syncthreads_or(int said) {
  if (said != 0) gpu_shim::block->raised.store(1, std::memory_order_relaxed);
  __syncthreads();
  const int raised = gpu_shim::block->raised.load(std::memory_order_relaxed);
  __syncthreads();
  if (threadIdx.x == 0) gpu_shim::block->raised.store(0, std::memory_order_relaxed);
  return raised;
}

namespace gpu_shim {

/// Every lane of this warp contributes a value, and every lane gets all values.
template <class Hear>
auto warp_exchange(std::uint64_t value, const Hear& hear) {
  Block::Warp& warp = block->warps[threadIdx.x / 32];
  warp.said[threadIdx.x % 32] = value;
  warp.barrier.arrive_and_wait();
  const auto heard = hear(warp.said);
  warp.barrier.arrive_and_wait();
  return heard;
}

#if defined(GPU_SHIM_THREADS)

/// Runs `kernel()` in every thread of `blocks` blocks, one block after another.
template <class Kernel>
void run_grid(unsigned blocks, unsigned threads, const Kernel& kernel) {
  static std::mutex one_grid;
  const std::lock_guard lock(one_grid);
  Block shared(threads);
  std::vector<std::jthread> members;
  for (unsigned rank = 0; rank < threads; ++rank) {
    members.emplace_back([&, rank] {
      block = &shared;
      threadIdx = {rank};
      blockDim = {threads};
      gridDim = {blocks};
      for (unsigned index = 0; index < blocks; ++index) {
        blockIdx = {index};
        kernel();
        if (index + 1 != blocks) __syncthreads();  // the next block uses the same shared memory
      }
    });
  }
}

#else

template <class Kernel>
void run_grid(unsigned blocks, unsigned threads, const Kernel& kernel) {
  Block shared(threads);
  block = &shared;
  blockDim = {threads};
  gridDim = {blocks};
  for (unsigned index = 0; index < blocks; ++index) {
    blockIdx = {index};
    run_fibers(threads, [](unsigned rank) { threadIdx = {rank}; }, [&] { kernel(); });
  }
  block = nullptr;
}

#endif

/// For tests that run a kernel without a stream.
template <class Kernel>
void launch(unsigned blocks, unsigned threads, const Kernel& kernel) {
  run_grid(blocks, threads, kernel);
}

/// Makes the function that every thread calls, from a kernel's address and its arguments, which are
/// copied.
using Binder = std::function<void()> (*)(const void* kernel, void** arguments);

/// All kernels whose addresses were requested.
struct Binders {
  std::mutex mutex;
  std::unordered_map<const void*, Binder> by_kernel;
};
inline Binders& binders() {
  // Streams may outlive objects that are destroyed at exit.
  static Binders* const all = new Binders;
  return *all;
}

template <class... Arguments>
struct Bind {
  static std::function<void()> bind(const void* kernel, void** arguments) {
    return with_copies(kernel, arguments, std::index_sequence_for<Arguments...>());
  }
  template <std::size_t... I>
  static std::function<void()> with_copies(const void* kernel, [[maybe_unused]] void** arguments, std::index_sequence<I...>) {
    const auto function = reinterpret_cast<void (*)(Arguments...)>(const_cast<void*>(kernel));
    const auto copies = std::make_shared<std::tuple<std::remove_cv_t<Arguments>...>>(
        *static_cast<std::remove_cv_t<Arguments>*>(arguments[I])...);
    return [function, copies] { std::apply(function, *copies); };
  }
};

/// A kernel in the form that the emulated runtime's cudaLaunchKernel() accepts.
template <class... Arguments>
const void* launchable(void (*kernel)(Arguments...)) {
  const auto address = reinterpret_cast<const void*>(kernel);
  Binders& all = binders();
  const std::lock_guard lock(all.mutex);
  all.by_kernel.emplace(address, &Bind<Arguments...>::bind);
  return address;
}

}  // namespace gpu_shim
