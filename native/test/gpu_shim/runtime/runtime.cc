// The emulated CUDA runtime: its calls over memory.h, stream.h and block.h. What is asynchronous there is so here; what
// copies from pageable memory has read it when it returns, as CUDA promises.
#include <atomic>
#include <cstring>

#include "../threads/block.h"
#include "../include/cuda_runtime_api.h"
#include "../include/cudaTypedefs.h"
#include "faults.h"
#include "memory.h"
#include "stream.h"

using namespace gpu_shim;

struct CUstream_st {
  Stream stream;
};
struct CUevent_st {
  bool timed = false;
  std::shared_ptr<Signal> signal;  // of its last record; none: it counts as done
};
struct CUgraph_st {
  std::vector<Step> steps;
};
struct CUgraphExec_st {
  std::vector<Step> steps;
};

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/// A question counts by itself, since how many of them there are is a matter of time. What gives back and what ends a wait
/// does not count.
enum class Call { kAny, kQuestion, kUncounted };

/// What every call begins with: a driver, and a device that is there.
cudaError_t begin(Call call = Call::kAny) {
  // Who only asks whether held work is done has to see that it is held no more.
  if (call == Call::kAny || (call == Call::kQuestion && faults().hold)) read_faults();
  const bool fails = call != Call::kUncounted && fails_now(call == Call::kQuestion);
  if (faults().none) return cudaErrorInsufficientDriver;
  if (device_lost()) return cudaErrorLaunchFailure;
  return fails ? cudaErrorInvalidValue : cudaSuccess;
}

Stream& default_stream() {
  static Stream* const stream = new Stream;
  return *stream;
}
Stream& of(cudaStream_t stream) { return stream ? stream->stream : default_stream(); }

bool is_pageable(const void* address, std::size_t bytes) { return kind_of(address, bytes) == Kind::kUnknown; }

/// @param at_once the source may be read now, whatever is before it in the stream: so that is done
cudaError_t copy(void* target, const void* source, std::size_t bytes, Stream& stream, bool at_once = false) {
  if (bytes == 0) return cudaSuccess;
  if (!target || !source) return cudaErrorInvalidValue;
  if (!stream.capturing() && (at_once || is_pageable(source, bytes))) {
    const Working working;
    const auto* first = static_cast<const char*>(source);
    auto kept = std::make_shared<std::vector<char>>(first, first + bytes);
    stream.push({[=] { std::memcpy(target, kept->data(), bytes); }, nullptr, nullptr});
  } else {
    stream.push({[=] { std::memcpy(target, source, bytes); }, nullptr, nullptr});
    if (!stream.capturing() && is_pageable(target, bytes)) stream.wait();
  }
  return device_lost() ? cudaErrorLaunchFailure : cudaSuccess;
}

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned) {
  if (begin() != cudaSuccess) return CUDA_ERROR_LAUNCH_FAILED;
  auto* word = reinterpret_cast<std::uint64_t*>(static_cast<std::uintptr_t>(address));
  if (!stream || address % 8 != 0 || kind_of(word, 8) == Kind::kUnknown) return CUDA_ERROR_INVALID_VALUE;
  const auto store = [=] {
    if (!faults().mute) __atomic_store_n(word, value, __ATOMIC_RELEASE);
  };
  of(stream).push({store, nullptr, nullptr});
  return CUDA_SUCCESS;
}

CUresult device_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = faults().storeless ? 0 : 1;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated GPU"; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = device_lost() ? cudaErrorLaunchFailure : last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return device_lost() ? cudaErrorLaunchFailure : last_error; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = faults().none ? 0 : CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = begin();
  *count = error == cudaSuccess ? static_cast<int>(faults().devices) : 0;
  return note(error);
}
cudaError_t cudaGetDevice(int* device) {
  read_faults();  // the first call of many a piece of work
  *device = current_device;
  return note(begin(Call::kQuestion));
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = begin()) return note(error);
  if (device < 0 || static_cast<std::uint64_t>(device) >= faults().devices) return note(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 1;
  return note(begin());
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", 0, 0, 4, static_cast<std::size_t>(faults().memory)};
  return note(begin());
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return note(begin());
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = begin()) return note(error);
  wait_for_all();
  return note(begin(Call::kUncounted));
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = static_cast<std::size_t>(faults().memory);
  *free = *total - device_bytes_in_use();
  return note(begin());
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  if (const cudaError_t error = begin()) return note(error);
  *function = nullptr;
  if (std::strcmp(symbol, "cuStreamWriteValue64") == 0) *function = reinterpret_cast<void*>(&write_value);
  if (std::strcmp(symbol, "cuDeviceGetAttribute") == 0) *function = reinterpret_cast<void*>(&device_attribute);
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t error = begin()) return note(error);
  *memory = bytes == 0 ? nullptr : allocate(Kind::kDevice, bytes);
  return note(*memory || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  const cudaError_t error = begin(Call::kUncounted);
  if (memory) wait_for_all();
  if (memory && !release(Kind::kDevice, memory)) return note(cudaErrorInvalidValue);
  return note(error);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (const cudaError_t error = begin()) return note(error);
  *memory = allocate(Kind::kPinned, bytes);
  return note(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaHostGetDevicePointer(void** on_device, void* on_host, unsigned) {
  if (const cudaError_t error = begin()) return note(error);
  if (kind_of(on_host) != Kind::kPinned) return note(cudaErrorInvalidValue);
  *on_device = on_host;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  const cudaError_t error = begin(Call::kUncounted);
  if (memory) wait_for_all();
  if (memory && !release(Kind::kPinned, memory)) return note(cudaErrorInvalidValue);
  return note(error);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const cudaError_t error = begin()) return note(error);
  void* same = const_cast<void*>(pointer);
  switch (kind_of(pointer)) {
    case Kind::kDevice: *attributes = {cudaMemoryTypeDevice, 0, same, nullptr}; break;
    case Kind::kPinned: *attributes = {cudaMemoryTypeHost, 0, same, same}; break;
    case Kind::kUnknown: *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, same}; break;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  return note(copy(target, source, bytes, of(stream)));
}
cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t error = begin()) return note(error);
  wait_for_all();  // the legacy default stream waits for every other
  const cudaError_t error = copy(target, source, bytes, default_stream());
  default_stream().wait();
  return note(error ? error : begin(Call::kUncounted));
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  of(stream).push({[=] { std::memset(memory, value, bytes); }, nullptr, nullptr});
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
cudaError_t cudaMemcpyBatchAsync(void* const* targets, const void* const* sources, const std::size_t* sizes,
                                 std::size_t count, cudaMemcpyAttributes* attributes, std::size_t* indexes,
                                 std::size_t num_attributes, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  const bool refused = !stream || count == 0 || !attributes || !indexes || num_attributes == 0 || indexes[0] != 0 ||
                       attributes[0].srcAccessOrder == cudaMemcpySrcAccessOrderInvalid;
  if (refused) return note(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < count; ++i) {
    if (sizes[i] == 0 || !targets[i] || !sources[i]) return note(cudaErrorInvalidValue);
    if (is_pageable(targets[i], sizes[i]) || is_pageable(sources[i], sizes[i])) return note(cudaErrorInvalidValue);
  }
  const bool at_once = attributes[0].srcAccessOrder == cudaMemcpySrcAccessOrderAny;
  for (std::size_t i = 0; i < count; ++i) {
    if (const cudaError_t error = copy(targets[i], sources[i], sizes[i], of(stream), at_once)) return note(error);
  }
  return cudaSuccess;
}

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
