// StallWatch: reports the position of a stalled benchmark.
#pragma once

#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "figures.h"

namespace blockstep::bench {

/// While the object lives, the thread that made it prints its stack on stderr whenever `progress`
/// has not changed for five seconds. A driver call that never returns cannot be reported otherwise.
class StallWatch {
 public:
  StallWatch() : watched_(pthread_self()), thread_([this] { watch(); }) {
    struct sigaction action{};
    action.sa_handler = [](int) {
      void* frames[64];
      backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
  }
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch() {
    over_ = true;
    thread_.join();
  }

 private:
  void watch() {
    u64 seen = progress;
    auto since = Clock::now();
    while (!over_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (progress != seen || Clock::now() - since > std::chrono::seconds(5)) {
        if (progress == seen) {
          std::fprintf(stderr, "no progress for 5 s:\n");
          pthread_kill(watched_, SIGUSR1);
        }
        seen = progress;
        since = Clock::now();
      }
    }
  }

  const pthread_t watched_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace blockstep::bench
