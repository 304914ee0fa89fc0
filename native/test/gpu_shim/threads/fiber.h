// Fibers: many call stacks that take turns in one thread.
#pragma once

#include <functional>

namespace gpu_shim {

/// Runs `body()` on `count` stacks at once, until all have returned. `enter(rank)` is called
/// whenever a stack gets its turn. Turns end only at FiberBarriers, and go round in the order of
/// the ranks.
void run_fibers(unsigned count, void (*enter)(unsigned rank), const std::function<void()>& body);

/// Passes the turn to the next stack.
void yield_fiber();

class FiberBarrier {
 public:
  explicit FiberBarrier(unsigned size) : size_(size) {}
  void arrive_and_wait() {
    const unsigned long turn = turn_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      turn_ += 1;
      return;
    }
    while (turn_ == turn) yield_fiber();
  }

 private:
  unsigned size_;
  unsigned arrived_ = 0;
  unsigned long turn_ = 0;
};

}  // namespace gpu_shim
