// The calls of the emulated CUDA runtime on streams, graphs and events, and its launches.
#include <algorithm>
#include <atomic>
#include <set>

#include "../threads/block.h"
#include "calls.h"

using namespace gpu_shim;

namespace {

std::atomic<int> live[6] = {};  // by the distance of a priority from the lowest

std::atomic<unsigned> early_launches{0};
std::atomic<unsigned> may_wait{0};

/// A kernel is loaded into a context at its first use there, which may wait for all work of the
/// device.
void load(const void* kernel) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const loaded = new std::set<std::pair<CUcontext, const void*>>;
  {
    const std::lock_guard lock(*mutex);
    if (loaded->count({current_context(), kernel}) != 0) return;
  }
  wait_while_spinning();
  const std::lock_guard lock(*mutex);
  loaded->insert({current_context(), kernel});
}

std::atomic<int>& live_of(int priority) { return live[std::clamp(-priority, 0, 5)]; }

}  // namespace

unsigned gpu_shim::launches_that_begin_early() { return early_launches; }
unsigned gpu_shim::calls_that_may_wait() { return may_wait; }
void gpu_shim::count_call_that_may_wait() { may_wait += 1; }
int gpu_shim::live_streams(int priority) { return live_of(priority); }

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin()) return note(error);
  *stream = new CUstream_st;
  (*stream)->priority = priority;
  live_of(priority) += 1;
  (*stream)->context = current_context();
  (*stream)->non_blocking = (flags & cudaStreamNonBlocking) != 0;
  if ((*stream)->non_blocking) return cudaSuccess;
  const std::lock_guard lock(blocking_mutex());
  blocking_streams().push_back(&(*stream)->stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (is_default(stream)) return note(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard lock(blocking_mutex());
    std::erase(blocking_streams(), &stream->stream);
  }
  stream->stream.end();
  live_of(stream->priority) -= 1;
  delete stream;
  return note(begin(Call::kUncounted));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = begin(Call::kQuestion, Needs::kNoCapture)) return note(error);
  if (of(stream).capturing()) return note(cudaErrorStreamCaptureUnsupported);
  return note(of(stream).idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin()) return note(error);
  if (of(stream).capturing()) return note(cudaErrorStreamCaptureUnsupported);
  of(stream).wait();
  return note(begin(Call::kUncounted));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_foreign(stream)) return note(cudaErrorInvalidResourceHandle);
  // A stream that waits for an event of a capture becomes a part of the capture.
  if (event->captured && !of(stream).capturing()) of(stream).begin_capture();
  if (event->signal) of(stream).push({nullptr, event->signal, nullptr});
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = of(stream).capturing() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return note(begin());
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = exchange_capture_mode(*mode);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_default(stream) || of(stream).capturing()) return note(cudaErrorStreamCaptureUnsupported);
  stream->captures_globally = mode == cudaStreamCaptureModeGlobal;
  if (stream->captures_globally) begin_global_capture();
  of(stream).begin_capture();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_default(stream) || !of(stream).capturing()) return note(cudaErrorInvalidValue);
  *graph = new CUgraph_st{of(stream).end_capture()};
  bool spoiled = false;
  if (stream->captures_globally) end_global_capture(spoiled);
  return note(spoiled ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = begin()) return note(error);
  *executable = new CUgraphExec_st{graph->steps};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  for (const Step& step : executable->steps) of(stream).push(step);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return note(begin(Call::kUncounted));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return note(begin(Call::kUncounted));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin()) return note(error);
  *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, current_context(), false, nullptr};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return note(cudaErrorInvalidResourceHandle);
  delete event;
  return note(begin(Call::kUncounted));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_foreign(stream) || (stream && is_foreign(event))) return note(cudaErrorInvalidResourceHandle);
  event->captured = of(stream).capturing();
  event->signal = std::make_shared<Signal>();
  of(stream).push({nullptr, nullptr, event->signal});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = begin(Call::kQuestion, Needs::kNoCapture)) return note(error);
  return note(!event->signal || is_done(*event->signal) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin()) return note(error);
  if (event->signal) wait_for(*event->signal);
  return note(begin(Call::kUncounted));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t error = begin()) return note(error);
  if (!start->timed || !end->timed || !start->signal || !end->signal) return note(cudaErrorInvalidResourceHandle);
  if (!is_done(*start->signal) || !is_done(*end->signal)) return note(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->signal->at - start->signal->at).count();
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (const cudaError_t error = begin()) return note(error);
  load(kernel);
  Binders& all = binders();
  const std::lock_guard lock(all.mutex);
  *attributes = {0};
  return note(all.by_kernel.count(kernel) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  if (const cudaError_t error = begin()) return note(error);
  if (!function) return note(cudaErrorInvalidValue);
  of(stream).push({[=] { function(argument); }, nullptr, nullptr, true});
  return cudaSuccess;
}
/// @param early the grid may begin before the previous grid has ended. Device memory stays closed
/// to it until it has waited for that grid (grid_dependency_wait() in threads/intrinsics.h).
static cudaError_t launch(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                          cudaStream_t stream, bool early) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_foreign(stream)) return note(cudaErrorInvalidResourceHandle);
  const bool refused = grid.x == 0 || grid.y != 1 || grid.z != 1 || block.x == 0 || block.x > 1024 || block.y != 1 ||
                       block.z != 1 || shared_bytes != 0;
  if (refused) return note(cudaErrorInvalidValue);
  std::function<void()> body;
  {
    Binders& all = binders();
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_kernel.find(kernel);
    if (found == all.by_kernel.end()) return note(cudaErrorInvalidDeviceFunction);
    body = found->second(kernel, arguments);
  }
  load(kernel);
  if (early) early_launches += 1;
  switch (fate_of_launch()) {
    case Fate::kRuns: {
      Step step{[=] { run_grid(grid.x, block.x, body); }, nullptr, nullptr};
      step.is_kernel = true;
      step.opens_memory = early;
      of(stream).push(std::move(step));
      return cudaSuccess;
    }
    case Fate::kSkipped: return cudaSuccess;
    case Fate::kHangs: of(stream).hang(); return cudaSuccess;
    // Like on a GPU, only a later call reports it.
    case Fate::kLost: lose_device(); return cudaSuccess;
  }
  return cudaErrorUnknown;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared_bytes, stream, false);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  bool early = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      early = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  return launch(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream, early);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  *blocks = static_cast<int>(faults().occupancy);
  return note(begin());
}

}  // extern "C"
