// A test of mapped memory: host and device write to each other, and each must see what the other wrote. WSL2 and
// confidential computing offer mapped memory that shows stale contents, without any error.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "../../core/base/types.h"

namespace blockstep {

/// Lies in mapped memory, zeroed. The host writes questions to `ask`; the device answers each with mailbox_reply().
struct alignas(64) Mailbox {
  alignas(64) std::atomic<u64> ask;
  alignas(64) std::atomic<u64> answer;
};

BLOCKSTEP_HD constexpr u64 mailbox_reply(u64 ask) { return ask * 0x9e3779b97f4a7c15u ^ 0x5851f42d4c957f2du; }

/// The device's answer if it has waited kMailboxPatience for the second question in vain.
constexpr u64 kMailboxGaveUp = ~u64{0};
constexpr u64 kFirstAsk = 0x6d61707065642031u;
constexpr u64 kSecondAsk = 0x6d61707065642032u;
constexpr std::chrono::milliseconds kMailboxPatience{100};

/// Runs the test. The first question stands in the mailbox before `start()` is called; the second is written while the
/// device is running. `ended()` returns whether the kernel on the device has ended.
/// @returns nullptr if mapped memory works, otherwise what does not work, in words
template <class Start, class Ended>
const char* self_test(Mailbox& mailbox, const Start& start, const Ended& ended,
                      std::chrono::milliseconds start_patience = std::chrono::seconds(5)) {
  using Clock = std::chrono::steady_clock;
  const auto wait = [&](u64 old, std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (;;) {
      const bool over = ended() || Clock::now() >= deadline;
      const u64 answer = mailbox.answer.load(std::memory_order_acquire);  // once more after the end
      if (answer != old || over) return answer;
      std::this_thread::yield();
    }
  };
  constexpr const char* kUnseen =
      "the kernel did not see a host write within 100 ms (as on WSL2, or under confidential computing)";
  mailbox.ask.store(kFirstAsk, std::memory_order_release);
  start();
  const u64 first = wait(0, start_patience);
  if (first == 0 && !ended()) return "the kernel did not start in time: the GPU is busy with something else";
  if (first == 0) return "the host did not see what the kernel wrote";
  if (first == kMailboxGaveUp) return kUnseen;
  if (first != mailbox_reply(kFirstAsk)) return "the kernel read something else than the host had written";
  mailbox.ask.store(kSecondAsk, std::memory_order_release);
  const u64 second = wait(first, 2 * kMailboxPatience);
  if (second == mailbox_reply(kSecondAsk)) return nullptr;
  if (second == first) return "the host did not see what the kernel wrote, within 200 ms";
  if (second == kMailboxGaveUp) return kUnseen;
  return "the kernel read something else than the host had written";
}

}  // namespace blockstep
