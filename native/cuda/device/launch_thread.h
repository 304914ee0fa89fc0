// LaunchThread: launches logs from a thread of its own, so that who decides a step does not wait for the driver.
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

/// A ring of letters, of one owner who fills it and one thread that launches them, in order. While launches come, the thread looks for
/// the next without pause; behind the last for a while it sleeps.
class LaunchThread {
 public:
  using Log = Letter<kLargeWords>;

  /// @param capacity letters that may wait: as many as logs that may be outstanding
  /// @throws std::system_error, std::bad_alloc
  LaunchThread(int device, cudaStream_t stream, u32 capacity);
  LaunchThread(const LaunchThread&) = delete;
  LaunchThread& operator=(const LaunchThread&) = delete;
  /// drain() first: a launch that does not return keeps its thread and what it reads for ever, and nothing else is launched.
  ~LaunchThread();

  /// The place of the next letter. A ring that is full is waited for. @throws Error as drain()
  Log& next();
  /// Has the letter in that place launched, as the parameter of a kernel of one thread block. @throws Error that a launch had
  void push(const void* kernel, u32 threads);
  /// Waits until everything was launched: whatever the owner launches now comes behind it. @throws Error that a launch had; kCuda if
  /// a launch does not return within kPatience
  void drain();
  /// @throws Error that a launch had. After one nothing is launched any more
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
