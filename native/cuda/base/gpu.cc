#include "gpu.h"

#include <array>
#include <atomic>
#include <mutex>

namespace blockstep::cuda {
namespace {

constexpr std::size_t kMaxGpus = 1024;
/// Freed memory that stays with the pool, which makes the next core or lane cheap. The rest goes
/// back to the GPU.
constexpr u64 kKeptBytes = u64{64} << 20;
std::array<std::atomic<const Gpu*>, kMaxGpus> gpus{};

/// Makes the context current for this thread, unless it already is. Returns whether it was pushed.
bool push(CUcontext context) {
  CUcontext current = nullptr;
  if (driver().current(&current) == CUDA_SUCCESS && current == context) return false;
  require(static_cast<cudaError_t>(driver().push(context)), "cuCtxPushCurrent");
  return true;
}

void pop() {
  CUcontext context = nullptr;
  static_cast<void>(driver().pop(&context));
}

/// A memory pool, or null if the GPU supports none.
cudaMemPool_t make_pool(int device) {
  int has_pools = 0;
  require(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device), "cudaDeviceGetAttribute");
  if (!has_pools) return nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, device};
  cudaMemPool_t pool = nullptr;
  require(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  u64 kept = kKeptBytes;
  const cudaError_t error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
  if (error != cudaSuccess) static_cast<void>(cudaMemPoolDestroy(pool));
  require(error, "cudaMemPoolSetAttribute");
  return pool;
}

/// A stream of the current context, and the pool that allocates memory in the order of this stream.
Gpu set_up(CUcontext context, int device) {
  Gpu gpu{context, nullptr, make_pool(device)};
  cudaStreamCaptureMode before = cudaStreamCaptureModeRelaxed;
  require(cudaThreadExchangeStreamCaptureMode(&before), "cudaThreadExchangeStreamCaptureMode");
  const cudaError_t made = cudaStreamCreateWithFlags(&gpu.service, cudaStreamNonBlocking);
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&before));
  if (made != cudaSuccess && gpu.pool) static_cast<void>(cudaMemPoolDestroy(gpu.pool));
  require(made, "cudaStreamCreateWithFlags");
  return gpu;
}

/// The GPU. Its context is retained permanently. A context that is destroyed while a finaliser
/// frees memory would crash the process.
const Gpu& find(int device) {
  if (device < 0 || static_cast<std::size_t>(device) >= kMaxGpus) {
    throw Error{kCuda, "there is no GPU " + std::to_string(device)};
  }
  std::atomic<const Gpu*>& known = gpus[static_cast<std::size_t>(device)];
  if (const Gpu* gpu = known.load(std::memory_order_acquire)) return *gpu;
  static std::mutex* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (const Gpu* gpu = known.load(std::memory_order_acquire)) return *gpu;
  CUcontext context = nullptr;
  require(static_cast<cudaError_t>(driver().retain(&context, device)), "cuDevicePrimaryCtxRetain");
  const bool pushed = push(context);
  try {
    const Gpu* gpu = new Gpu(set_up(context, device));
    if (pushed) pop();
    known.store(gpu, std::memory_order_release);
    return *gpu;
  } catch (...) {
    if (pushed) pop();
    throw;
  }
}

}  // namespace

int current_gpu() {
  CUdevice device = 0;
  require(static_cast<cudaError_t>(driver().device(&device)), "cuCtxGetDevice");
  return device;
}

OnDevice::OnDevice(int device) : gpu_(find(device)), pushed_(push(gpu_.context)) {
  const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&before_);
  if (error == cudaSuccess) return;
  if (pushed_) pop();
  require(error, "cudaThreadExchangeStreamCaptureMode");
}

OnDevice::~OnDevice() {
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&before_));
  if (pushed_) pop();
}

}  // namespace blockstep::cuda
