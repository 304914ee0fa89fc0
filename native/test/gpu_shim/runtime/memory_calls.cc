// The calls of the emulated CUDA runtime that allocate, free, fill and copy memory.
#include "calls.h"

using namespace gpu_shim;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin(Call::kAny, Needs::kNoCapture)) return note(error);
  *memory = bytes == 0 ? nullptr : allocate(Kind::kDevice, bytes);
  return note(*memory || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  const cudaError_t error = begin(Call::kUncounted, Needs::kNoCapture);
  if (error == cudaErrorStreamCaptureUnsupported) return note(error);
  if (memory) wait_while_spinning();
  if (memory) wait_for_all();
  if (memory && !release(Kind::kDevice, memory)) return note(cudaErrorInvalidValue);
  return note(error);
}
/// A pool keeps no memory. Memory freed in stream order is released when the stream reaches that
/// point.
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (const cudaError_t error = begin(Call::kAny, Needs::kNoCapture)) return note(error);
  if (properties->allocType != cudaMemAllocationTypePinned || properties->location.type != cudaMemLocationTypeDevice) {
    return note(cudaErrorInvalidValue);
  }
  static char some_pool;
  *pool = reinterpret_cast<cudaMemPool_t>(&some_pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return note(begin(Call::kUncounted)); }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return note(begin()); }
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin()) return note(error);
  if (!pool || is_default(stream) || is_foreign(stream) || of(stream).capturing()) return note(cudaErrorInvalidValue);
  *memory = bytes == 0 ? nullptr : allocate(Kind::kDevice, bytes);
  if (!*memory && bytes != 0) {
    of(stream).wait();  // memory freed earlier in this order is available again
    *memory = allocate(Kind::kDevice, bytes);
  }
  return note(*memory || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  const cudaError_t error = begin(Call::kUncounted);
  if (error != cudaSuccess && error != cudaErrorLaunchFailure) return note(error);
  if (is_default(stream) || is_foreign(stream) || kind_of(memory) != Kind::kDevice) return note(cudaErrorInvalidValue);
  if (error) {  // it is lost with the device, after the device's current work has ended
    wait_for_all();
    release(Kind::kDevice, memory);
  } else {
    of(stream).push({[=] { release(Kind::kDevice, memory); }, nullptr, nullptr, true});
  }
  return note(error);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  count_call_that_may_wait();
  if (const cudaError_t error = begin(Call::kAny, Needs::kNoCapture)) return note(error);
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
  const cudaError_t error = begin(Call::kUncounted, Needs::kNoCapture);
  if (error == cudaErrorStreamCaptureUnsupported) return note(error);
  if (memory) wait_while_spinning();
  if (memory) wait_for_all();
  if (memory && !release(Kind::kPinned, memory)) return note(cudaErrorInvalidValue);
  return note(error);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const cudaError_t error = begin()) return note(error);
  void* same = const_cast<void*>(pointer);
  switch (kind_of(pointer)) {
    case Kind::kDevice: *attributes = {cudaMemoryTypeDevice, 0, same, nullptr}; break;
    case Kind::kPinned:
      *attributes = {faults().managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost, 0, same, same};
      break;
    case Kind::kUnknown: *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, same}; break;
  }
  return cudaSuccess;
}
/// Copies from pageable memory are staged. CUDA may wait for all earlier work of the stream, so the
/// emulation does.
cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_foreign(stream)) return note(cudaErrorInvalidResourceHandle);
  if (!of(stream).capturing() && is_pageable(source, bytes)) of(stream).wait();
  return note(copy(target, source, bytes, of(stream)));
}
/// In the legacy default stream: after all streams except non-blocking ones. A short copy from
/// pageable memory has been read when the call returns, but may not have arrived.
cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind) {
  count_call_that_may_wait();
  constexpr std::size_t kStaged = 64 << 10;
  if (const cudaError_t error = begin(Call::kAny, Needs::kNoCapture)) return note(error);
  wait_for_blocking_streams();
  const cudaError_t error = copy(target, source, bytes, default_stream());
  const bool early = bytes <= kStaged && is_pageable(source, bytes) && kind_of(target, bytes) == Kind::kDevice;
  if (!early) default_stream().wait();
  return note(error ? error : begin(Call::kUncounted));
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  if (is_foreign(stream)) return note(cudaErrorInvalidResourceHandle);
  Step step{[=] { std::memset(memory, value, bytes); }, nullptr, nullptr};
  step.is_kernel = true;
  step.is_late = is_default(stream);
  of(stream).push(std::move(step));
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
cudaError_t cudaMemcpyBatchAsync(void* const* targets, const void* const* sources, const std::size_t* sizes,
                                 std::size_t count, cudaMemcpyAttributes* attributes, std::size_t* indexes,
                                 std::size_t num_attributes, cudaStream_t stream) {
  if (const cudaError_t error = begin()) return note(error);
  const bool refused = is_default(stream) || count == 0 || !attributes || !indexes || num_attributes == 0 || indexes[0] != 0 ||
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

}  // extern "C"
