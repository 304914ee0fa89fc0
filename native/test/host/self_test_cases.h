// The self-test of mapped memory, on kernels that answer well, late, wrongly or never.
#pragma once

#include <thread>

#include "../../host/device/self_test.h"
#include "../support/support.h"

namespace blockstep::test {

/// A kernel for the self-test of mapped memory, and what the test should say of it.
struct FakeKernel {
  const char* what;
  bool starts, sees, answers, reads_right, reads_second_right;
  const char* says;
};

static const char* self_test_of(const FakeKernel& fake) {
  Mailbox mailbox{};
  std::atomic<bool> over{false};
  std::thread kernel;
  const auto start = [&] {
    if (!fake.starts) return;
    kernel = std::thread([&] {
      const u64 first = mailbox.ask.load(std::memory_order_acquire);
      if (fake.answers) mailbox.answer.store(mailbox_reply(first) + !fake.reads_right, std::memory_order_release);
      const auto deadline = std::chrono::steady_clock::now() + kMailboxPatience;
      u64 second = first;
      while (second == first && std::chrono::steady_clock::now() < deadline) {
        if (fake.sees) second = mailbox.ask.load(std::memory_order_acquire);
        std::this_thread::yield();
      }
      const u64 answer = second == first ? kMailboxGaveUp : mailbox_reply(second) + !fake.reads_second_right;
      if (fake.answers) mailbox.answer.store(answer, std::memory_order_release);
      over.store(true, std::memory_order_release);
    });
  };
  const auto ended = [&] { return over.load(std::memory_order_acquire); };
  const char* wrong = self_test(mailbox, start, ended, std::chrono::milliseconds(fake.starts ? 5000 : 20));
  if (kernel.joinable()) kernel.join();
  return wrong;
}

/// Each kernel is found to be what it is. On a machine with much to do a thread can miss its 100 ms, and try again.
static void test_self_test() {
  const FakeKernel fakes[] = {
      {"all is well", true, true, true, true, true, nullptr},
      {"the GPU is busy", false, true, true, true, true, "did not start"},
      {"the host sees nothing", true, true, false, true, true, "the host did not see"},
      {"the kernel sees nothing", true, false, true, true, true, "did not see a host write"},
      {"the kernel reads something else", true, true, true, false, true, "something else"},
      {"the kernel reads something else later", true, true, true, true, false, "something else"},
  };
  for (const FakeKernel& fake : fakes) {
    const char* wrong = nullptr;
    bool as_expected = false;
    for (u32 tries = 0; tries < 8 && !as_expected; ++tries) {
      wrong = self_test_of(fake);
      as_expected = fake.says ? wrong && std::strstr(wrong, fake.says) : !wrong;
    }
    EXPECT(as_expected, "%s: %s", fake.what, wrong ? wrong : "passed");
  }
}

}  // namespace blockstep::test
