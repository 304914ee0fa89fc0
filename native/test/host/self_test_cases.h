// The self-test of mapped memory, on kernels that answer correctly, late, wrongly or never.
#pragma once

#include <thread>

#include "../../host/device/self_test.h"
#include "../support/support.h"

namespace blockstep::test {

/// A kernel for the self-test of mapped memory, and the expected verdict.
struct FakeKernel {
  const char* what;
  bool starts, sees, answers, reads_right, reads_last_right;
  const char* says;
  bool blocks = false;  // its launch returns after it has ended
};

static MailboxVerdict self_test_of(const FakeKernel& fake) {
  Mailbox mailbox{};
  std::atomic<bool> over{false};
  std::thread kernel;
  const auto start = [&] {
    if (!fake.starts) return;
    kernel = std::thread([&] {
      u64 question = mailbox.ask.load(std::memory_order_acquire);
      if (fake.answers) mailbox.answer.store(mailbox_reply(question) + !fake.reads_right, std::memory_order_release);
      for (u32 i = 0; i < kLaterAsks; ++i) {
        const auto deadline = std::chrono::steady_clock::now() + kMailboxPatience;
        const u64 before = question;
        while (question == before && std::chrono::steady_clock::now() < deadline) {
          if (fake.sees) question = mailbox.ask.load(std::memory_order_acquire);
          std::this_thread::yield();
        }
        const bool wrong = i + 1 == kLaterAsks && !fake.reads_last_right;
        const u64 answer = question == before ? kMailboxGaveUp : mailbox_reply(question) + wrong;
        if (fake.answers) mailbox.answer.store(answer, std::memory_order_release);
        if (question == before) break;
      }
      over.store(true, std::memory_order_release);
    });
    while (fake.blocks && !over.load(std::memory_order_acquire)) std::this_thread::yield();
  };
  const auto ended = [&] { return over.load(std::memory_order_acquire); };
  const MailboxVerdict verdict = self_test(mailbox, start, ended, std::chrono::milliseconds(fake.starts ? 5000 : 20));
  if (kernel.joinable()) kernel.join();
  return verdict;
}

/// Each kernel gets its correct verdict. On a busy machine a thread can miss its 100 ms, and tries
/// again.
static void test_self_test() {
  const FakeKernel fakes[] = {
      {"all is well", true, true, true, true, true, nullptr},
      {"the GPU is busy", false, true, true, true, true, "did not start"},
      {"the host sees nothing", true, true, false, true, true, "the host did not see"},
      {"the kernel sees nothing", true, false, true, true, true, "did not see a host write"},
      {"the launch waits for its kernel", true, true, true, true, true, "CUDA_LAUNCH_BLOCKING", true},
      {"the kernel reads something else", true, true, true, false, true, "something else"},
      {"the kernel reads something else later", true, true, true, true, false, "something else"},
  };
  for (const FakeKernel& fake : fakes) {
    MailboxVerdict verdict;
    bool as_expected = false;
    for (u32 tries = 0; tries < 8 && !as_expected; ++tries) {
      verdict = self_test_of(fake);
      as_expected = fake.says ? verdict.wrong && std::strstr(verdict.wrong, fake.says) : !verdict.wrong;
    }
    EXPECT(as_expected, "%s: %s", fake.what, verdict.wrong ? verdict.wrong : "passed");
    EXPECT(verdict.began == fake.starts, "%s: began %d", fake.what, verdict.began);
    // A thread answers within the time limit, and in more than zero time.
    EXPECT(fake.says || (verdict.round_trip.count() > 0 && verdict.round_trip < kMailboxPatience), "%lld ns",
           static_cast<long long>(verdict.round_trip.count()));
  }
}

}  // namespace blockstep::test
