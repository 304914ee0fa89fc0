// Something for the GPU to do meanwhile: what runs beside a step while it is measured.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../../../cuda/memory/memory.h"

namespace blockstep::bench {

enum class Beside {
  kIdle,
  kProduct,     // one matrix product after the other, with many more blocks than fit at once
  kPersistent,  // the same with no more blocks than fit, each of which runs for milliseconds
  kCopies,      // large copies from the host, one after the other, as loads of KV are
  kCopiesBack,  // the same to the host
};

const char* name_of(Beside beside);

/// Keeps the GPU busy from its construction to its destruction, on a stream of normal priority: a few launches are always
/// queued, by a thread of its own. A plain tiled product of FP32 matrices, no library: it is here to fill every
/// multiprocessor, not to be fast.
class Busy {
 public:
  /// @param side of the square matrices, a multiple of the tile's
  /// @param copy_bytes of each copy
  Busy(Beside what, int device, u32 side, u64 copy_bytes);
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy();

  /// Queues nothing any more; what is queued still ends.
  void stop() { stop_ = true; }
  /// False if it broke off: then nothing ran beside what was measured.
  bool still_at_work() const { return !stop_; }
  /// Thread blocks of each launch.
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

/// One matrix product at a time, in a stream of normal priority: what a step comes right behind.
class OneProduct {
 public:
  /// @param times it is made so often in one launch
  OneProduct(u32 side, u32 times);
  OneProduct(const OneProduct&) = delete;
  OneProduct& operator=(const OneProduct&) = delete;
  ~OneProduct();
  /// Launches it and waits until it has ended, by asking without pause.
  void run();

 private:
  const u32 side_;
  const u32 times_;
  cuda::DeviceMemory matrices_;
  cuda::Stream stream_{cuda::Priority::kLowest};
};

/// The clock of a multiprocessor in MHz, measured in a kernel of a quarter of a millisecond. Waits.
double measure_clock();

/// Nanoseconds from the first of many completions of a kernel to the last, for each: with a release, which waits for what was
/// written before, and as words that stand for themselves. Waits.
struct CompletionTimes {
  double released;
  double relaxed;
};
CompletionTimes measure_completions();

/// a * b, of `side` rows and columns each, for the test of the product itself. Waits.
std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b, u32 side);

}  // namespace blockstep::bench
