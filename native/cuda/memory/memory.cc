#include "memory.h"

#include <atomic>

namespace blockstep::cuda {
namespace {

std::atomic<u64> abandoned{0};

#if defined(GPU_SHIM)
// Every piece ends at a page without access.
constexpr PinnedLimits kLimits{0, u64{16} << 20};
#else
constexpr PinnedLimits kLimits{u64{4} << 20, u64{256} << 20};
#endif

/// Pins memory. The driver must return pinned host memory. Under confidential computing it may
/// return managed memory instead, which is copied back and forth, and shows the other side's writes
/// late.
PinnedPiece pin(u64 bytes) {
  const int device = current_gpu();
  void* base = nullptr;
  require_memory(cudaHostAlloc(&base, bytes, cudaHostAllocMapped | cudaHostAllocPortable), bytes,
                 "cudaHostAlloc of mapped memory", "of pinned memory");
  try {
    void* on_device = nullptr;
    require(cudaHostGetDevicePointer(&on_device, base, 0), "cudaHostGetDevicePointer");
    cudaPointerAttributes attributes{};
    require(cudaPointerGetAttributes(&attributes, base), "cudaPointerGetAttributes");
    if (attributes.type != cudaMemoryTypeHost) {
      throw Error{kCuda, "the driver gave memory of type " + std::to_string(static_cast<int>(attributes.type)) +
                             " instead of pinned memory (as under confidential computing)"};
    }
    return {static_cast<u8*>(base), static_cast<u8*>(on_device), bytes, device};
  } catch (...) {
    static_cast<void>(cudaFreeHost(base));
    throw;
  }
}

/// After work was given up, unpinning would wait for it forever.
void unpin(const PinnedPiece& slab) {
  if (abandoned.load(std::memory_order_relaxed) != 0) return;
  try {
    const OnDevice on(slab.device);
    static_cast<void>(cudaFreeHost(slab.base));
  } catch (const Error&) {
    // The driver no longer answers, so the memory is already lost.
  }
}

}  // namespace

u64 abandoned_bytes() { return abandoned.load(std::memory_order_relaxed); }
void count_abandoned(u64 bytes) { abandoned.fetch_add(bytes, std::memory_order_relaxed); }

PinnedSlabs& pinned_slabs() {
  static PinnedSlabs* const all = new PinnedSlabs(kLimits, pin, unpin);
  return *all;
}

DeviceMemory::DeviceMemory(u64 bytes) : device_(current_gpu()), bytes_(bytes) {
  const OnDevice on(device_);
  const Gpu& gpu = on.gpu();
  pooled_ = gpu.pool != nullptr;
  if (!pooled_) {
    require_memory(cudaMalloc(&base_, bytes), bytes, "cudaMalloc", "on the GPU");
    return;
  }
  require_memory(cudaMallocFromPoolAsync(&base_, bytes, gpu.pool, gpu.service), bytes, "cudaMallocFromPoolAsync",
                 "on the GPU");
  // Other streams may use the memory once this stream has reached this point. That happens at once,
  // because no work in it waits for a kernel.
  try {
    if (wait_for(gpu.service, "the allocation of memory")) return;
  } catch (...) {
    static_cast<void>(cudaFreeAsync(base_, gpu.service));
    throw;
  }
  count_abandoned(bytes);
  give_up("the allocation of memory", bytes);
}

DeviceMemory::~DeviceMemory() {
  if (!base_) return;
  try {
    const OnDevice on(device_);
    if (pooled_) static_cast<void>(cudaFreeAsync(base_, on.gpu().service));
    // Without a pool, cudaFree() waits for all work.
    else if (abandoned_bytes() == 0) static_cast<void>(cudaFree(base_));
  } catch (const Error&) {
    // The driver no longer answers, so the memory is already lost.
  }
}

void DeviceMemory::abandon() {
  if (base_) count_abandoned(bytes_);
  base_ = nullptr;
}

MappedMemory::MappedMemory(u64 bytes) : piece_(pinned_slabs().take(bytes)) {}

MappedMemory::~MappedMemory() {
  if (piece_.base) pinned_slabs().give_back(piece_);
}

void MappedMemory::abandon() {
  if (piece_.base) count_abandoned(piece_.bytes);
  piece_.base = nullptr;
}

}  // namespace blockstep::cuda
