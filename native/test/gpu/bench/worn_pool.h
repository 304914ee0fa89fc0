// A pool that an engine has used for a while, on the host and on the GPU. Steps are measured on it,
// with either authority.
#pragma once

#include "../../../cuda/device/cuda_device.h"
#include "../../../host/mirror/mirror.h"
#include "figures.h"
#include "steps.h"

namespace blockstep::bench {

/// Writes commands into a log.
using Part = std::function<void(test::Log&)>;

/// A measured step, and the preparation that makes it repeatable. `budget`: microseconds that an
/// idle H100 may take to apply it after the host's decision; 0: none.
struct MeasuredStep {
  const char* name;
  Part before;
  Part step;
  Part after;
  double budget;
};

/// The state on the host, and its mirror.
class WornPool {
 public:
  static constexpr u32 kMaxLogs = 2;

  /// @param launch_thread a thread of the device launches the logs
  WornPool(u32 device, bool decides, bool launch_thread = false) : WornPool(open(device, decides, launch_thread)) {}
  /// @param device in the initial state of kPool, with kMaxLogs
  explicit WornPool(std::unique_ptr<Device> device) : host_(kPool), mirror_(std::move(device), limits()) {
    // Twice through the whole pool, so that every block has a key.
    for (u32 i = 0; i < 2 * kPool.num_blocks / kLongBlocks; ++i) {
      act([&](test::Log& log) { steps_.admit_long(log); });
      act([&](test::Log& log) { steps_.finish_long(log); });
    }
    apply(steps_.restart());
    EXPECT(host_.state.evictions != 0, "a pool in which nothing is evicted");
  }
  WornPool(const WornPool&) = delete;
  WornPool& operator=(const WornPool&) = delete;

  test::Machine& host() { return host_; }
  Mirror& mirror() { return mirror_; }

  /// The same steps for every authority. They refer to this pool.
  std::vector<MeasuredStep> measured_steps() {
    const auto nothing = [](test::Log&) {};
    const auto decode = [this](test::Log& log) { steps_.decode(log); };
    const auto admit = [this](test::Log& log) { steps_.admit_others(log); };
    const auto finish = [this](test::Log& log) { steps_.finish_others(log); };
    return {
        {"decode of 256, 16 new blocks", nothing, decode, nothing, 10},
        {"decode of 256, 4 finished of 40 blocks", admit, both(finish, decode), nothing, 0},
        {"decode of 256, 4 admitted of 40 blocks", nothing, both(decode, admit), finish, 0},
        {"admission of 126,000 tokens", nothing, [this](test::Log& log) { steps_.admit_long(log); },
         [this](test::Log& log) { steps_.finish_long(log); }, 0},
    };
  }

  /// Room for one more step, made outside of the measurement.
  void make_room() {
    if (steps_.full()) apply(steps_.restart());
  }

  /// Applied by the host, and by the GPU before the call returns.
  void act(const Part& part) {
    test::Log log;
    part(log);
    if (log.size() != 0) apply(log);
  }

  /// Applied only by the host. The GPU must reach the same state.
  void apply_here(const test::Log& log) {
    host_.apply(log);
    EXPECT(host_.results.fault == kNoFault, "%s", describe(host_.results.fault));
  }

  /// Also passes the host's last log to the GPU.
  void append(const test::Log& log) {
    mirror_.append(log.words.data(), log.size(), host_.results.num_ids, host_.state.rolling_digest);
  }

  void settle() {
    while (mirror_.poll(), !mirror_.idle()) {
    }
  }

  /// Checks that the GPU's whole state equals the host's. @throws Error kMirror if it does not
  void compare() {
    mirror_.start_digest(digest(host_.state));
    settle();
  }

 private:
  static std::unique_ptr<Device> open(u32 device, bool decides, bool launch_thread) {
    cuda::Options options;
    options.device = device;
    options.max_logs = kMaxLogs;
    options.decides = decides;
    options.launch_thread = launch_thread;
    return cuda::open(kPool, options);
  }
  static MirrorLimits limits() { return {kMaxLogs, slot_words(kPool), kPool.num_blocks, kMaxWaitingWords}; }

  static Part both(const Part& first, const Part& second) {
    return [=](test::Log& log) {
      first(log);
      second(log);
    };
  }

  void apply(const test::Log& log) {
    apply_here(log);
    append(log);
    mirror_.submit();
    settle();
  }

  test::Machine host_;
  Mirror mirror_;
  Steps steps_;
};

}  // namespace blockstep::bench
