#include "call.h"

#include <atomic>
#include <cstring>

namespace blockstep::cuda {
namespace {

std::atomic<bool> freeing{true};

}  // namespace

void require_memory(cudaError_t error, u64 bytes, const char* call, const char* where) {
  if (error != cudaErrorMemoryAllocation) return require(error, call);
  static_cast<void>(cudaGetLastError());
  throw Error{kNoMemory, "could not allocate " + std::to_string(bytes) + " bytes " + where + ": " + describe(error)};
}

void stop_freeing() { freeing.store(false, std::memory_order_relaxed); }

void free_device(void* memory) {
  if (freeing.load(std::memory_order_relaxed)) static_cast<void>(cudaFree(memory));
}

void free_pinned(void* memory) {
  if (freeing.load(std::memory_order_relaxed)) static_cast<void>(cudaFreeHost(memory));
}

MappedMemory::MappedMemory(u64 bytes) : bytes_(bytes) {
  const cudaError_t allocated = cudaHostAlloc(&base_, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
  require_memory(allocated, bytes, "cudaHostAlloc of mapped memory", "of pinned memory");
  void* device_base = nullptr;
  const cudaError_t error = cudaHostGetDevicePointer(&device_base, base_, 0);
  if (error != cudaSuccess) free_pinned(base_);
  require(error, "cudaHostGetDevicePointer");
  device_base_ = static_cast<u8*>(device_base);
  std::memset(base_, 0, bytes);
}

Stream::Stream() {
  int lowest = 0;
  int highest = 0;
  require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
}

}  // namespace blockstep::cuda
