#include "timeline.h"

namespace blockstep::cuda {
namespace {

/// The address of a function of the driver, looked up by name because libcuda is not linked. Null if this driver lacks
/// it.
void* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result);
#endif
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return function;
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

/// cuStreamWriteValue64() where this GPU can store 64 bits, otherwise null.
PFN_cuStreamWriteValue64_v11070 find_write_value(u32 device) {
  const auto attribute = reinterpret_cast<PFN_cuDeviceGetAttribute_v2000>(driver_function("cuDeviceGetAttribute"));
  const auto write = reinterpret_cast<PFN_cuStreamWriteValue64_v11070>(driver_function("cuStreamWriteValue64"));
  int can = 0;
  if (!attribute || !write) return nullptr;
  // The runtime counts devices as the driver does.
  const auto which = static_cast<CUdevice>(device);
  const CUresult result = attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, which);
  return result == CUDA_SUCCESS && can ? write : nullptr;
}

}  // namespace

Timeline::Timeline(u32 device, CompletionMode mode, u32 max_marks) {
  if (mode != CompletionMode::kEvent) write_ = find_write_value(device);
  if (write_) return;
  if (mode == CompletionMode::kWriteValue) throw Error{kCuda, "this GPU or its driver has no cuStreamWriteValue64"};
  for (u32 i = 0; i < max_marks; ++i) events_.push_back(std::make_unique<Event>());
}

void Timeline::mark(u64 number, cudaStream_t stream) {
  if (write_) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.on_device(memory_.base()));
    const CUresult result = write_(stream, address, number, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result != CUDA_SUCCESS) {
      throw Error{kCuda, "cuStreamWriteValue64 failed: CUresult " + std::to_string(static_cast<int>(result))};
    }
  } else {
    require(cudaEventRecord(events_[number % events_.size()]->get(), stream), "cudaEventRecord");
  }
  marked_ = number;
}

u64 Timeline::done() {
  if (write_) return reinterpret_cast<const std::atomic<u64>*>(memory_.base())->load(std::memory_order_acquire);
  while (done_ < marked_) {
    const cudaError_t status = cudaEventQuery(events_[(done_ + 1) % events_.size()]->get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      break;
    }
    require(status, "what was copied on the GPU");
    ++done_;
  }
  return done_;
}

}  // namespace blockstep::cuda
