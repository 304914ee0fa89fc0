// A test of mapped memory: host and device write to each other, and each must see the other's
// writes. WSL2 and confidential computing offer mapped memory that shows stale contents, without
// any error.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "../../core/base/types.h"

namespace blockstep {

/// Lies in mapped memory, zeroed. The host writes questions to `ask`. The device answers each
/// question with mailbox_reply().
struct alignas(64) Mailbox {
  alignas(64) std::atomic<u64> ask;
  alignas(64) std::atomic<u64> answer;
};

BLOCKSTEP_HD constexpr u64 mailbox_reply(u64 ask) { return ask * 0x9e3779b97f4a7c15u ^ 0x5851f42d4c957f2du; }

/// The device's answer if a later question did not arrive in time.
constexpr u64 kMailboxGaveUp = ~u64{0};
constexpr u64 kFirstAsk = 0x6d61707065642031u;
constexpr u64 kSecondAsk = 0x6d61707065642032u;
/// Number of questions after the first. All of them are asked while the device is running, and the
/// fastest answer counts.
constexpr u32 kLaterAsks = 3;
/// Default time that the device waits for a question. The host waits twice as long for an answer.
constexpr std::chrono::milliseconds kMailboxPatience{100};

/// The result of a self-test.
struct MailboxVerdict {
  // Null if mapped memory works, otherwise a description of the failure.
  const char* wrong = nullptr;
  // false: the device did not begin the kernel, which may still run at any time.
  bool began = true;
  std::chrono::nanoseconds round_trip{0};  // the fastest of the later answers
};

/// Runs the test. The first question is in the mailbox before the call of `start()`. The others are
/// written while the device is running. `ended()` returns whether the kernel on the device has
/// ended. `patience` is the device's.
template <class Start, class Ended>
MailboxVerdict self_test(Mailbox& mailbox, const Start& start, const Ended& ended,
                         std::chrono::milliseconds start_patience = std::chrono::seconds(5),
                         std::chrono::milliseconds patience = kMailboxPatience) {
  using Clock = std::chrono::steady_clock;
  const auto wait = [&](u64 old, std::chrono::milliseconds most) {
    const auto deadline = Clock::now() + most;
    for (u32 polls = 1;; ++polls) {
      // A query of the driver takes longer than the awaited answer.
      const bool over = polls % 64 == 0 && (ended() || Clock::now() >= deadline);
      const u64 answer = mailbox.answer.load(std::memory_order_acquire);  // once more after the end
      if (answer != old || over) return answer;
      if (polls % 64 == 0) std::this_thread::yield();
    }
  };
  constexpr const char* kUnseen =
      "the kernel did not see a host write in time (as on WSL2, or under confidential computing)";
  constexpr const char* kOther = "the kernel read something else than the host had written";
  constexpr const char* kBlocking =
      "the launch returned when its kernel had ended: launches wait for their kernels, as with CUDA_LAUNCH_BLOCKING=1 or "
      "under a debugger";
  mailbox.ask.store(kFirstAsk, std::memory_order_release);
  const auto launched = Clock::now();
  start();
  const bool blocking = Clock::now() - launched >= patience && ended();
  u64 answer = wait(0, start_patience);
  if (answer == 0 && !ended()) return {"the kernel did not start in time: the GPU is busy with something else", false, {}};
  if (answer == 0) return {"the host did not see what the kernel wrote", true, {}};
  if (answer == kMailboxGaveUp) return {blocking ? kBlocking : kUnseen, true, {}};
  if (answer != mailbox_reply(kFirstAsk)) return {kOther, true, {}};
  MailboxVerdict verdict;
  verdict.round_trip = std::chrono::nanoseconds::max();
  for (u32 i = 0; i < kLaterAsks; ++i) {
    const u64 before = answer;
    const auto asked = Clock::now();
    mailbox.ask.store(kSecondAsk + i, std::memory_order_release);
    answer = wait(before, 2 * patience);
    if (answer == before) return {"the host did not see what the kernel wrote, in time", true, {}};
    if (answer == kMailboxGaveUp) return {kUnseen, true, {}};
    if (answer != mailbox_reply(kSecondAsk + i)) return {kOther, true, {}};
    verdict.round_trip = std::min<std::chrono::nanoseconds>(verdict.round_trip, Clock::now() - asked);
  }
  return verdict;
}

}  // namespace blockstep
