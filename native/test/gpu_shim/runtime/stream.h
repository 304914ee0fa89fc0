// Streams of the emulated GPU. Each is a thread that runs one piece of work after another. Queued
// work is never dropped: destroyed streams finish it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gpu_shim {

/// An event that happens once.
struct Signal {
  bool done = false;  // guarded by the lock of all streams
  std::chrono::steady_clock::time_point at;
};

/// One piece of work. It may access device memory.
using Work = std::function<void()>;

/// The items of a capture: work and signals in their order.
struct Step {
  Work work;                          // or
  std::shared_ptr<Signal> waits_for;  // or
  std::shared_ptr<Signal> raises;
  bool on_host = false;  // work that may not access device memory
  bool is_kernel = false;
  bool is_late = false;  // of the default stream
  bool opens_memory = false;  // opens device memory itself, after it has waited for earlier work
  std::uint64_t number = 0;
  unsigned losses = 0;  // number of losses of the device when it was queued
};

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Queues a step, or adds it to the current capture.
  void push(Step step);
  /// No work after the currently queued work is ever done.
  void hang();
  bool idle() const;
  void wait() const;
  /// The thread ends after all queued work, and destroys the object.
  void end();

  bool capturing() const { return capture_ != nullptr; }
  void begin_capture() { capture_ = std::make_unique<std::vector<Step>>(); }
  std::vector<Step> end_capture() {
    const auto steps = std::move(capture_);
    return std::move(*steps);
  }

 private:
  struct State;
  void queue(Step step);
  static void work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::unique_ptr<std::vector<Step>> capture_;
};

/// Called by a kernel that began early, after it has waited for earlier kernels. Until then it
/// cannot access device memory here, because it would race with them on a GPU.
void open_memory();

/// Whether the signal has happened; and waits for it, or for the loss of the device.
bool is_done(const Signal& signal);
void wait_for(const Signal& signal);
/// The device is lost: queued work is dropped, and all waits end.
void lose_device();
void revive_device();
bool device_lost();
/// For tests: number of live streams that were created with a priority, from 0 (lowest) to -5
/// (highest).
int live_streams(int priority);
/// For tests: number of launches so far of grids that may begin before the previous grid has ended.
unsigned launches_that_begin_early();
/// For tests: number of calls so far that may wait until the GPU is idle: calls that allocate, free
/// at once, create, load or synchronise.
unsigned calls_that_may_wait();
void count_call_that_may_wait();
/// Waits until all currently queued work is done, regardless of later work. If the device is lost,
/// waits until no work runs.
void wait_for_all();

}  // namespace gpu_shim
