#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace gpu_shim {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

#if defined(__x86_64__)

/// Position of a suspended stack: its stack pointer, behind the registers that a call must
/// preserve.
struct Place {
  void* top = nullptr;
};

// switch_place(from, to): saves the registers on the current stack, and continues on another stack.
extern "C" void gpu_shim_switch(void** from, void* to);
asm(R"(
.text
.hidden gpu_shim_switch
.globl gpu_shim_switch
gpu_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

void switch_place(Place& from, Place& to) { gpu_shim_switch(&from.top, to.top); }

void prepare(Place& place, char* stack, void (*entry)()) {
  // The stack looks as if `entry`'s first instruction had called switch_place(): six registers,
  // then the return address. On entry to a function, the stack pointer is 8 bytes off a multiple of
  // 16.
  auto* top = reinterpret_cast<std::uintptr_t*>(stack + kStackBytes) - 2;
  *top = reinterpret_cast<std::uintptr_t>(entry);
  place.top = top - 6;
}

#else

using Place = ucontext_t;

void switch_place(Place& from, Place& to) { swapcontext(&from, &to); }

void prepare(Place& place, char* stack, void (*entry)()) {
  getcontext(&place);
  place.uc_stack.ss_sp = stack;
  place.uc_stack.ss_size = kStackBytes;
  place.uc_link = nullptr;
  makecontext(&place, entry, 0);
}

#endif

/// The stacks of one thread, kept for the next grid.
struct Round {
  char* memory = nullptr;
  unsigned room = 0;
  std::vector<Place> places;
  std::vector<char> over;
  Place caller;
  unsigned count = 0;
  unsigned at = 0;
  unsigned left = 0;
  void (*enter)(unsigned) = nullptr;
  const std::function<void()>* body = nullptr;

  void make_room(unsigned stacks) {
    if (stacks <= room) return;
    if (memory) munmap(memory, room * kStackBytes);
    void* fresh = mmap(nullptr, stacks * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) std::abort();
    memory = static_cast<char*>(fresh);
    room = stacks;
  }
  ~Round() {
    if (memory) munmap(memory, room * kStackBytes);
  }

  /// The next stack that has not returned.
  unsigned next() const {
    unsigned i = at;
    do i = i + 1 == count ? 0 : i + 1;
    while (over[i]);
    return i;
  }
};

thread_local Round round_of_thread;

[[noreturn]] void begin_fiber() {
  Round& round = round_of_thread;
  (*round.body)();
  const unsigned self = round.at;
  round.over[self] = 1;
  if (--round.left == 0) {
    switch_place(round.places[self], round.caller);
  } else {
    round.at = round.next();
    round.enter(round.at);
    switch_place(round.places[self], round.places[round.at]);
  }
  std::abort();
}

}  // namespace

void run_fibers(unsigned count, void (*enter)(unsigned), const std::function<void()>& body) {
  Round& round = round_of_thread;
  round.make_room(count);
  round.places.resize(count);
  round.over.assign(count, 0);
  for (unsigned i = 0; i < count; ++i) prepare(round.places[i], round.memory + i * kStackBytes, begin_fiber);
  round.count = round.left = count;
  round.at = 0;
  round.enter = enter;
  round.body = &body;
  enter(0);
  switch_place(round.caller, round.places[0]);
}

void yield_fiber() {
  Round& round = round_of_thread;
  const unsigned self = round.at;
  round.at = round.next();
  if (round.at == self) return;
  round.enter(round.at);
  switch_place(round.places[self], round.places[round.at]);
  // The stack that yielded has called enter() for this one.
}

}  // namespace gpu_shim
