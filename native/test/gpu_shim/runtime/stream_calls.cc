// The calls of the emulated CUDA runtime on streams, graphs and events, and its launches.
#include <atomic>

#include "../threads/block.h"
#include "calls.h"

using namespace gpu_shim;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const cudaError_t error = begin()) return note(error);
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return note(cudaErrorInvalidResourceHandle);
  stream->stream.end();
  delete stream;
  return note(begin(Call::kUncounted));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = begin(Call::kQuestion)) return note(error);
  if (of(stream).capturing()) return note(cudaErrorStreamCaptureUnsupported);
  return note(of(stream).idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  if (of(stream).capturing()) return note(cudaErrorStreamCaptureUnsupported);
  of(stream).wait();
  return note(begin(Call::kUncounted));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = begin()) return note(error);
  if (event->signal) of(stream).push({nullptr, event->signal, nullptr});
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = of(stream).capturing() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return note(begin());
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (const cudaError_t error = begin()) return note(error);
  if (!stream || of(stream).capturing()) return note(cudaErrorStreamCaptureUnsupported);
  of(stream).begin_capture();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (const cudaError_t error = begin()) return note(error);
  if (!stream || !of(stream).capturing()) return note(cudaErrorInvalidValue);
  *graph = new CUgraph_st{of(stream).end_capture()};
  return cudaSuccess;
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
  if (const cudaError_t error = begin()) return note(error);
  *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, nullptr};
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
  event->signal = std::make_shared<Signal>();
  of(stream).push({nullptr, nullptr, event->signal});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = begin(Call::kQuestion)) return note(error);
  return note(!event->signal || is_done(*event->signal) ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
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
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
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
  switch (fate_of_launch()) {
    case Fate::kRuns:
      of(stream).push({[=] { run_grid(grid.x, block.x, body); }, nullptr, nullptr});
      return cudaSuccess;
    case Fate::kSkipped: return cudaSuccess;
    case Fate::kHangs: of(stream).hang(); return cudaSuccess;
    case Fate::kLost: lose_device(); return cudaSuccess;  // as on a GPU: a later call hears of it
  }
  return cudaErrorUnknown;
}

}  // extern "C"
