// Streams of the emulated GPU: each a thread that does one piece of work after the other. What is queued is there to
// stay: streams that are destroyed finish it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gpu_shim {

/// Something that happens once.
struct Signal {
  bool done = false;  // guarded by the lock of all streams
  std::chrono::steady_clock::time_point at;
};

/// One piece of work. It may touch device memory.
using Work = std::function<void()>;

/// What a capture collects: work and signals in their order.
struct Step {
  Work work;                          // or
  std::shared_ptr<Signal> waits_for;  // or
  std::shared_ptr<Signal> raises;
  bool on_host = false;  // work that may not touch device memory
  bool is_kernel = false;
  bool is_late = false;  // of the default stream
  bool opens_memory = false;  // work that opens device memory itself, when it has waited for what is before it
  std::uint64_t number = 0;
  unsigned losses = 0;  // how often the device had been lost when it was queued
};

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Queues a step, or adds it to what is being captured.
  void push(Step step);
  /// Nothing behind what is queued now is ever done.
  void hang();
  bool idle() const;
  void wait() const;
  /// Ends once all is done; the object goes with its thread.
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

/// Called by a kernel that began before those in front of it were done, when it has waited for them. Until then it cannot touch
/// device memory here: it would race with them on a GPU.
void open_memory();

/// Has it happened? And: waits until it has, or the device is lost.
bool is_done(const Signal& signal);
void wait_for(const Signal& signal);
/// The device is gone: nothing that is queued is done any more, and nobody waits.
void lose_device();
void revive_device();
bool device_lost();
/// For tests: streams that were made with a priority, 0 the lowest and -5 the highest, and not destroyed.
int live_streams(int priority);
/// For tests: launches so far of grids that may begin before the one in front of them has ended.
unsigned launches_that_begin_early();
/// For tests: calls so far that may wait until the GPU is idle: those that allocate, give back at once, create, load or synchronise.
unsigned calls_that_may_wait();
void count_call_that_may_wait();
/// Waits until all that is queued now is done, whatever comes meanwhile, or if the device is lost, until nothing is being
/// done any more.
void wait_for_all();

}  // namespace gpu_shim
