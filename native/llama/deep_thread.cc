#include "deep_thread.h"

#include <exception>
#include <stdexcept>

#ifdef _WIN32
#include <process.h>
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace blockstep::llama {
namespace {

struct Task {
  const std::function<void()>& work;
  std::exception_ptr failure;

  void run() noexcept {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

#ifdef _WIN32
unsigned __stdcall begin(void* task) {
  static_cast<Task*>(task)->run();
  return 0;
}

bool run_in_thread(std::size_t stack_bytes, Task& task) {
  const auto thread = reinterpret_cast<HANDLE>(_beginthreadex(
      nullptr, static_cast<unsigned>(stack_bytes), begin, &task, STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr));
  if (thread == nullptr) return false;
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
  return true;
}
#else
void* begin(void* task) {
  static_cast<Task*>(task)->run();
  return nullptr;
}

bool run_in_thread(std::size_t stack_bytes, Task& task) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread;
  const std::size_t page = 65536;
  const bool is_started = pthread_attr_setstacksize(&attributes, (stack_bytes + page - 1) / page * page) == 0 &&
                          pthread_create(&thread, &attributes, begin, &task) == 0;
  pthread_attr_destroy(&attributes);
  if (is_started) pthread_join(thread, nullptr);
  return is_started;
}
#endif

}  // namespace

void run_deep(std::size_t stack_bytes, const std::function<void()>& work) {
  Task task{work, nullptr};
  if (!run_in_thread(stack_bytes, task)) throw std::runtime_error("the system gives no thread to tokenize in");
  if (task.failure != nullptr) std::rethrow_exception(task.failure);
}

}  // namespace blockstep::llama
