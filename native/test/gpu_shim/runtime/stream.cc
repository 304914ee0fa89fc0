#include "stream.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <set>
#include <signal.h>
#include <thread>

#include "faults.h"
#include "memory.h"

namespace gpu_shim {
namespace {

/// One lock for all streams, because they wait for each other's signals. Never destroyed, because
/// streams may outlive all other objects.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool lost = false;
  unsigned losses = 0;
  std::uint64_t queued = 0;            // number of steps so far, which is their numbering
  std::set<std::uint64_t> unfinished;  // of these
  unsigned busy = 0;                   // number of streams that are at work
};
Shared& shared() {
  static Shared* const one = new Shared;
  return *one;
}

}  // namespace

#if !defined(GPU_SHIM_THREADS)
namespace {

/// The kernel of this thread opens device memory after it has waited for earlier kernels, and
/// whether it has.
thread_local bool opens = false;
thread_local std::optional<Working> opened;

}  // namespace
#endif

struct Stream::State {
  std::deque<Step> queue;
  bool busy = false;
  bool ending = false;
};

Stream::Stream() : state_(std::make_shared<State>()) {
  // Only the program's own threads handle signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { work(state); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Stream::push(Step step) {
  if (capture_) {
    capture_->push_back(std::move(step));
    return;
  }
  if (const std::uint64_t address = take_poke()) {
    const auto value = static_cast<std::uint32_t>(faults().value);
    queue({[=] { *reinterpret_cast<std::uint32_t*>(address) = value; }, nullptr, nullptr});
  }
  queue(std::move(step));
}

void Stream::queue(Step step) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  step.losses = all.losses;
  step.number = all.queued++;
  all.unfinished.insert(step.number);
  state_->queue.push_back(std::move(step));
  all.changed.notify_all();
}

void Stream::hang() { push({nullptr, std::make_shared<Signal>(), nullptr}); }

bool Stream::idle() const {
  const std::lock_guard lock(shared().mutex);
  return state_->queue.empty() && !state_->busy;
}

void Stream::wait() const {
  Shared& all = shared();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return all.lost || (state_->queue.empty() && !state_->busy); });
}

void Stream::end() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  state_->ending = true;
  all.changed.notify_all();
}

void Stream::work(const std::shared_ptr<State>& state) {
  Shared& all = shared();
  std::unique_lock lock(all.mutex);
  for (;;) {
    all.changed.wait(lock, [&] {
      // Lost with the device.
      while (!state->queue.empty() && state->queue.front().losses != all.losses) {
        all.unfinished.erase(state->queue.front().number);
        state->queue.pop_front();
        all.changed.notify_all();
      }
      if (state->queue.empty()) return state->ending;
      const auto& signal = state->queue.front().waits_for;
      return !signal || signal->done;
    });
    if (state->queue.empty()) return;
    const Step step = std::move(state->queue.front());
    state->queue.pop_front();
    state->busy = true;
    all.busy += 1;
    if (step.work) {
      lock.unlock();
      while (faults().hold || (step.is_kernel && faults().spin)) std::this_thread::sleep_for(std::chrono::microseconds(50));
      const std::uint64_t delay = faults().delay + (step.is_late ? faults().late : 0);
      if (delay != 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      if (step.on_host) {
        step.work();
#if !defined(GPU_SHIM_THREADS)
      } else if (step.opens_memory) {
        opens = true;
        step.work();
        opens = false;
        opened.reset();
#endif
      } else {
        const Working working;
        step.work();
      }
      lock.lock();
    }
    if (step.raises) {
      step.raises->done = true;
      step.raises->at = std::chrono::steady_clock::now();
    }
    state->busy = false;
    all.busy -= 1;
    all.unfinished.erase(step.number);
    all.changed.notify_all();
  }
}

#if defined(GPU_SHIM_THREADS)
void open_memory() {}  // each thread of a block is a separate thread, which knows no step
#else
void open_memory() {
  if (opens && !opened) opened.emplace();
}
#endif

bool is_done(const Signal& signal) {
  const std::lock_guard lock(shared().mutex);
  return signal.done;
}

void wait_for(const Signal& signal) {
  Shared& all = shared();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return all.lost || signal.done; });
}

void lose_device() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.lost = true;
  all.losses += 1;
  all.changed.notify_all();
}

void revive_device() {
  Shared& all = shared();
  std::unique_lock lock(all.mutex);
  // Unfinished work of the lost device has ended before a new device exists. It is no longer waited
  // for.
  if (all.lost) all.changed.wait_for(lock, std::chrono::seconds(5), [&] { return all.busy == 0; });
  all.lost = false;
}

bool device_lost() {
  const std::lock_guard lock(shared().mutex);
  return shared().lost;
}

void wait_for_all() {
  Shared& all = shared();
  std::unique_lock lock(all.mutex);
  const std::uint64_t end = all.queued;
  all.changed.wait(lock, [&] {
    const bool done = all.unfinished.empty() || *all.unfinished.begin() >= end;
    return done || (all.lost && all.busy == 0);
  });
}

}  // namespace gpu_shim
