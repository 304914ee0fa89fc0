#include "timeline.h"

#include <chrono>
#include <thread>

namespace blockstep::cuda {
namespace {

/// Maximum time from the end of a stream to the moment at which its store can be read.
constexpr std::chrono::milliseconds kStorePatience{100};

/// cuStreamWriteValue64() if this GPU can store 64 bits, otherwise null.
PFN_cuStreamWriteValue64_v11070 find_write_value(u32 device) {
  const auto attribute = driver().attribute;
  const auto write = driver().write_value;
  int can = 0;
  if (!attribute || !write) return nullptr;
  // The runtime numbers devices like the driver.
  const auto which = static_cast<CUdevice>(device);
  const CUresult result = attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, which);
  return result == CUDA_SUCCESS && can ? write : nullptr;
}

}  // namespace

Timeline::Timeline(u32 device, CompletionMode mode, u32 max_marks, cudaStream_t stream) {
  if (mode != CompletionMode::kEvent) write_ = find_write_value(device);
  if (write_ && store_comes(stream)) return;
  const bool silent = write_ != nullptr;
  write_ = nullptr;
  if (mode == CompletionMode::kWriteValue) {
    throw Error{kCuda, silent ? "cuStreamWriteValue64 stores nothing on this GPU"
                              : "this GPU or its driver has no cuStreamWriteValue64"};
  }
  for (u32 i = 0; i < max_marks; ++i) events_.push_back(std::make_unique<Event>());
}

/// Stores a number that no mark has, and checks that it arrives. If it does not, the memory is not
/// used again, because the store may arrive later.
bool Timeline::store_comes(cudaStream_t stream) {
  constexpr u64 kProbe = ~u64{0};
  try {
    store(kProbe, stream);
  } catch (const Error&) {
    return false;
  }
  // A busy machine or GPU begins the stream late, and that says nothing about the store. The word is
  // read first, because a stream cannot be queried beside a capture.
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (bool is_over = false; word().load(std::memory_order_acquire) != kProbe;) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_over && query(stream) != cudaErrorNotReady) {
      is_over = true;
      deadline = now + kStorePatience;
    } else if (now >= deadline) {
      memory_.abandon();
      return false;
    }
    std::this_thread::yield();
  }
  const_cast<std::atomic<u64>&>(word()).store(0, std::memory_order_relaxed);
  return true;
}

void Timeline::store(u64 number, cudaStream_t stream) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.on_device(memory_.base()));
  const CUresult result = write_(stream, address, number, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_SUCCESS) return;
  throw Error{kCuda, "cuStreamWriteValue64 failed: CUresult " + std::to_string(static_cast<int>(result))};
}

void Timeline::mark(u64 number, cudaStream_t stream) {
  if (write_) store(number, stream);
  else require(cudaEventRecord(events_[number % events_.size()]->get(), stream), "cudaEventRecord");
  marked_ = number;
}

u64 Timeline::done() {
  if (write_) return word().load(std::memory_order_acquire);
  if (done_ == marked_) return done_;
  const OnDevice on(events_[0]->device());
  while (done_ < marked_) {
    const cudaError_t status = query(events_[(done_ + 1) % events_.size()]->get());
    if (status == cudaErrorNotReady) break;
    require(status, "what was copied on the GPU");
    ++done_;
  }
  return done_;
}

}  // namespace blockstep::cuda
