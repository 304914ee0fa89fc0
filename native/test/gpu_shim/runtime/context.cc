#include "context.h"

#include <map>
#include <mutex>
#include <vector>

#include "faults.h"

namespace gpu_shim {
namespace {

struct Contexts {
  std::mutex mutex;
  std::map<int, CUcontext> primary;
  unsigned captures = 0;  // in Global mode
  bool spoiled = false;   // a capture in Global mode was invalidated
};
Contexts& contexts() {
  static Contexts* const all = new Contexts;
  return *all;
}

thread_local std::vector<CUcontext> context_stack;
thread_local int named = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

}  // namespace

CUcontext primary_context(int device) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  const auto found = all.primary.find(device);
  if (found != all.primary.end()) return found->second;
  if (faults().taken >> device & 1) return nullptr;
  return all.primary[device] = new CUctx_st{device, true};
}

CUcontext current_context() {
  if (context_stack.empty()) {
    CUcontext context = primary_context(0);
    if (!context) return nullptr;
    context_stack.push_back(context);
  }
  return context_stack.back();
}

int current_device() { return context_stack.empty() ? 0 : context_stack.back()->device; }
int named_device() { return named; }
void name_device(int device) { named = device; }
void push_context(CUcontext context) { context_stack.push_back(context); }
CUcontext pop_context() {
  if (context_stack.empty()) return nullptr;
  CUcontext top = context_stack.back();
  context_stack.pop_back();
  return top;
}
void replace_context(CUcontext context) {
  static_cast<void>(pop_context());
  push_context(context);
}
CUcontext context_on_top() { return context_stack.empty() ? nullptr : context_stack.back(); }

bool has_context(int device) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  return all.primary.count(device) != 0;
}
CUcontext foreign_context(int device) { return new CUctx_st{device, false}; }

void begin_global_capture() {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  if (all.captures++ == 0) all.spoiled = false;
}
void end_global_capture(bool& was_spoiled) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  all.captures -= 1;
  was_spoiled = all.spoiled;
}
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode) {
  const cudaStreamCaptureMode before = capture_mode;
  capture_mode = mode;
  return before;
}
bool refused_by_capture() {
  return capture_mode != cudaStreamCaptureModeRelaxed && spoils_capture();
}
bool spoils_capture() {
  Contexts& all = contexts();
  const std::lock_guard lock(all.mutex);
  if (all.captures == 0) return false;
  all.spoiled = true;
  return true;
}

}  // namespace gpu_shim
