#include "launch_thread.h"

namespace blockstep::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Time that the thread polls for the next launch before it sleeps: longer than most steps take.
#if defined(GPU_SHIM)
// Polling takes a processor from the threads of the emulated GPU.
constexpr std::chrono::microseconds kAwake{200};
#else
constexpr std::chrono::milliseconds kAwake{20};
#endif

}  // namespace

LaunchThread::LaunchThread(int device, cudaStream_t stream, u32 capacity)
    : ring_(std::make_shared<Ring>(device, stream, capacity)), thread_([ring = ring_] { ring->work(); }) {}

LaunchThread::~LaunchThread() {
  ring_->stop = true;
  wake();
  const u64 given = ring_->given;
  if (wait_until([&] { return ring_->launched == given; })) thread_.join();
  else thread_.detach();
}

LaunchThread::Log& LaunchThread::next() {
  const u64 given = ring_->given.load(std::memory_order_relaxed);
  const u64 capacity = ring_->places.size();
  check();
  if (!wait_until([&] { return given - ring_->launched.load(std::memory_order_acquire) < capacity; })) {
    give_up("a launch", 0);
  }
  return ring_->places[given % capacity].letter;
}

void LaunchThread::push(const void* kernel, u32 threads) {
  const u64 given = ring_->given.load(std::memory_order_relaxed);
  Ring::Place& place = ring_->places[given % ring_->places.size()];
  place.kernel = kernel;
  place.threads = threads;
  // Sequentially consistent with `sleeps`: one of the two threads sees the other's store.
  ring_->given.store(given + 1);
  if (ring_->sleeps) wake();
}

void LaunchThread::drain() {
  const u64 given = ring_->given.load(std::memory_order_relaxed);
  if (!wait_until([&] { return ring_->launched.load(std::memory_order_acquire) == given; })) give_up("a launch", 0);
  check();
}

void LaunchThread::check() const {
  if (ring_->failed.load(std::memory_order_acquire)) throw Error{kCuda, ring_->wrong};
}

/// Returns false if it is not over within kPatience.
template <class Over>
bool LaunchThread::wait_until(const Over& over) const {
  if (over()) return true;
  for (const auto deadline = Clock::now() + kPatience; Clock::now() < deadline;) {
    if (over()) return true;
    std::this_thread::yield();
  }
  return over();
}

void LaunchThread::wake() {
  const std::lock_guard lock(ring_->mutex);
  ring_->woken.notify_one();
}

void LaunchThread::Ring::work() {
  auto last = Clock::now();
  for (;;) {
    if (launched.load(std::memory_order_relaxed) != given.load(std::memory_order_acquire)) {
      launch_next();
      last = Clock::now();
    } else if (stop) {
      return;
    } else if (Clock::now() - last >= kAwake) {
      if (!wait_for_more()) return;
      last = Clock::now();
    } else {
      std::this_thread::yield();
    }
  }
}

/// Launches the oldest letter. Letters after a failed launch count as launched. So do letters whose
/// owner, and thus stream, is gone.
void LaunchThread::Ring::launch_next() {
  const u64 number = launched.load(std::memory_order_relaxed);
  if (!failed && !stop) {
    Place& place = places[number % places.size()];
    void* arguments[] = {&place.letter};
    try {
      const OnDevice on(device);
      require(cudaLaunchKernel(place.kernel, dim3(1), dim3(place.threads), arguments, 0, stream), "launch of apply");
    } catch (const Error& error) {
      wrong = error.message;
      failed.store(true, std::memory_order_release);
    }
  }
  launched.store(number + 1, std::memory_order_release);
}

/// Sleeps until there are more letters. Returns false if the owner is gone.
bool LaunchThread::Ring::wait_for_more() {
  std::unique_lock lock(mutex);
  sleeps = true;
  woken.wait(lock, [&] { return given != launched || stop; });
  sleeps = false;
  return given != launched || !stop;
}

}  // namespace blockstep::cuda
