// Work for the GPU that runs beside a measured step.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../../../cuda/memory/memory.h"

namespace blockstep::bench {

enum class Beside {
  kIdle,
  kProduct,     // one matrix product after another, with many more blocks than fit at once
  kPersistent,  // the same with only the blocks that fit, each of which runs for milliseconds
  kCopies,      // large copies from the host, one after another, like loads of KV
  kCopiesBack,  // the same to the host
};

const char* name_of(Beside beside);

/// Keeps the GPU busy while the object lives, on a stream of normal priority: its own thread always
/// keeps a few launches queued. It is a plain tiled product of FP32 matrices without a library,
/// meant to fill every multiprocessor, not to be fast.
class Busy {
 public:
  /// @param side of the square matrices, a multiple of the tile's
  /// @param copy_bytes bytes of each copy
  Busy(Beside what, int device, u32 side, u64 copy_bytes);
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy();

  /// Queues no more work. Queued work still ends.
  void stop() { stop_ = true; }
  /// False if it ended early: then no work ran beside the measurement.
  bool still_at_work() const { return !stop_; }
  /// Number of thread blocks of each launch.
  u32 blocks() const { return blocks_; }

 private:
  void work();
  void launch(cudaStream_t stream);

  const Beside what_;
  const int device_;
  const u32 side_;
  const u64 copy_bytes_;
  u32 blocks_;
  cuda::DeviceMemory matrices_;  // two factors and the product; or one end of the copies
  cuda::MappedMemory pinned_;    // the other end
  std::atomic<u64> done_{0};
  std::atomic<bool> stop_{false};
  std::string wrong_;
  std::thread worker_;
};

/// One matrix product at a time, in a stream of normal priority, before a step.
class OneProduct {
 public:
  /// @param times number of products in one launch
  OneProduct(u32 side, u32 times);
  OneProduct(const OneProduct&) = delete;
  OneProduct& operator=(const OneProduct&) = delete;
  ~OneProduct();
  /// Launches it and waits for its end by polling.
  void run();

 private:
  const u32 side_;
  const u32 times_;
  cuda::DeviceMemory matrices_;
  cuda::Stream stream_{cuda::Priority::kLowest};
};

/// The clock of a multiprocessor in MHz, measured by a kernel of a quarter of a millisecond. Waits
/// for the GPU.
double measure_clock();

/// Nanoseconds per completion, from the first of a kernel's many completions to the last. With a
/// release, which waits for earlier writes, and with relaxed words. Waits for the GPU.
struct CompletionTimes {
  double released;
  double relaxed;
};
CompletionTimes measure_completions();

/// a * b, of `side` rows and columns each, for the test of the product itself. Waits for the GPU.
std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b, u32 side);

}  // namespace blockstep::bench
