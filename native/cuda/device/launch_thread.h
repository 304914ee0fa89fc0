// LaunchThread: launches logs from its own thread, so that the thread that decides a step does not
// wait for the driver.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../base/stream.h"
#include "../kernels/kernels.h"

namespace blockstep::cuda {

/// A ring of letters. One owner fills it, and one thread launches the letters in order. While
/// launches come, the thread polls for the next launch. It sleeps if none comes for a while.
class LaunchThread {
 public:
  using Log = Letter<kLargeWords>;

  /// @param capacity maximum number of waiting letters: that of outstanding logs
  /// @throws std::system_error, std::bad_alloc
  LaunchThread(int device, cudaStream_t stream, u32 capacity);
  LaunchThread(const LaunchThread&) = delete;
  LaunchThread& operator=(const LaunchThread&) = delete;
  /// Call drain() first. A launch that does not return blocks its thread and keeps the memory that
  /// it reads forever, and no later launch happens.
  ~LaunchThread();

  /// The place of the next letter. Waits while the ring is full. @throws Error like drain()
  Log& next();
  /// Makes the thread launch the letter in that place, as the parameter of a kernel of one thread
  /// block. @throws Error of an earlier launch
  void push(const void* kernel, u32 threads);
  /// Waits until all letters are launched, so that later launches of the owner come after them.
  /// @throws Error of a launch; kCuda if a launch does not return within kPatience
  void drain();
  /// @throws Error of a launch. After a failed launch no letter is launched any more.
  void check() const;

 private:
  /// Outlives the owner if a launch does not return.
  struct Ring {
    struct Place {
      const void* kernel = nullptr;
      u32 threads = 0;
      Log letter{};
    };
    Ring(int its_device, cudaStream_t its_stream, u32 capacity) : device(its_device), stream(its_stream), places(capacity) {}

    void work();
    void launch_next();
    bool wait_for_more();

    const int device;
    const cudaStream_t stream;
    std::vector<Place> places;
    alignas(64) std::atomic<u64> given{0};
    alignas(64) std::atomic<u64> launched{0};
    std::atomic<bool> failed{false};
    std::atomic<bool> stop{false};
    std::atomic<bool> sleeps{false};
    std::mutex mutex;
    std::condition_variable woken;
    std::string wrong;  // written before `failed`
  };

  template <class Over>
  bool wait_until(const Over& over) const;
  void wake();

  const std::shared_ptr<Ring> ring_;
  std::thread thread_;
};

}  // namespace blockstep::cuda
