#include "fatal_signals.h"

#ifndef _WIN32
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#endif

namespace blockstep {

#ifdef _WIN32

void say_fatal_signals() {}

#else

namespace {

struct FatalSignal {
  int number;
  const char* words;
  struct sigaction before;
};

// Signals belong to the process, so all copies of this environment's addon share this table.
FatalSignal fatal_signals[] = {
    {SIGSEGV, "SIGSEGV: memory that is not there, or the end of a stack", {}},
    {SIGBUS, "SIGBUS: memory that is not there any more, such as a file that was cut off, or no memory for a page", {}},
    {SIGILL, "SIGILL: an instruction that this processor has not", {}},
    {SIGFPE, "SIGFPE: arithmetic that cannot be done", {}},
    {SIGABRT, "SIGABRT: a library, or Node for want of memory, has given up; it may have said why above", {}},
};
std::atomic<bool> is_told{false};
alignas(16) char stack_of_handler[64 * 1024];

/// Async-signal-safe, like all code that a handler calls.
class Line {
 public:
  void add(const char* words) {
    while (*words != '\0' && size_ < sizeof text_) text_[size_++] = *words++;
  }

  void add_hex(std::uintptr_t number) {
    char digits[2 * sizeof number + 1];
    std::size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
      digits[--at] = "0123456789abcdef"[number % 16];
      number /= 16;
    } while (number != 0);
    add("0x");
    add(digits + at);
  }

  void write_out() const {
    std::size_t written = 0;
    while (written < size_) {
      const ssize_t count = write(STDERR_FILENO, text_ + written, size_ - written);
      if (count <= 0) return;
      written += static_cast<std::size_t>(count);
    }
  }

 private:
  char text_[256];
  std::size_t size_ = 0;
};

void tell(const FatalSignal& fatal, const siginfo_t* info) {
  // A second failing thread is not reported.
  if (is_told.exchange(true)) return;
  Line line;
  line.add("\nblockstep ends: ");
  line.add(fatal.words);
  if (fatal.number != SIGABRT && info != nullptr && info->si_code > 0) {  // sent by no process
    line.add(", at ");
    line.add_hex(reinterpret_cast<std::uintptr_t>(info->si_addr));
  }
  line.add("\n");
  line.write_out();
}

void on_signal(int number, siginfo_t* info, void* context) {
  for (const FatalSignal& fatal : fatal_signals) {
    if (fatal.number != number) continue;
    const struct sigaction& before = fatal.before;
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
      before.sa_sigaction(number, info, context);
      // Node's own handler has either repaired the WebAssembly fault, or restored the default
      // action and raised the signal again.
      struct sigaction now;
      if (sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
      tell(fatal, info);
      return;
    }
    tell(fatal, info);
    struct sigaction end;
    std::memset(&end, 0, sizeof end);
    end.sa_handler = SIG_DFL;
    sigaction(number, &end, nullptr);
    raise(number);  // delivered when this handler has returned
    return;
  }
}

}  // namespace

void say_fatal_signals() {
  static std::atomic<bool> is_done{false};
  if (is_done.exchange(true)) return;
  stack_t stack;
  std::memset(&stack, 0, sizeof stack);
  stack.ss_sp = stack_of_handler;
  stack.ss_size = sizeof stack_of_handler;
  stack_t stack_before;
  // Sanitizers have their own alternate stack.
  if (sigaltstack(nullptr, &stack_before) == 0 && (stack_before.ss_flags & SS_DISABLE) != 0) sigaltstack(&stack, nullptr);
  for (FatalSignal& fatal : fatal_signals) {
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (sigaction(fatal.number, nullptr, &fatal.before) == 0) sigaction(fatal.number, &action, nullptr);
  }
}

#endif

}  // namespace blockstep
