// The calls of the emulated CUDA runtime that give, take, fill and copy memory.
#include "calls.h"

using namespace gpu_shim;

extern "C" {

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

}  // extern "C"
