#include "block_memory.h"

#include "../base/backend.h"
#include "../base/bounded.h"
#include "../device/probe.h"

namespace blockstep::cuda {

DeviceBlocks::DeviceBlocks(u32 device, u64 bytes) : BlockMemory(Place::kDevice, device, bytes), memory_(bytes) {
  bind(memory_.base(), memory_.base());
  const Stream stream;
  require(cudaMemsetAsync(base(), 0, bytes, stream.get()), "cudaMemsetAsync");
  if (wait_for(stream.get(), "the initialisation of an arena")) return;
  memory_.abandon();
  give_up("the initialisation of an arena", bytes);
}

void DeviceBlocks::read(u64 from, void* to, u64 bytes) const {
  copy(to, base() + from, bytes, cudaMemcpyDeviceToHost);
}

void DeviceBlocks::write(u64 to, const void* from, u64 bytes) {
  copy(base() + to, from, bytes, cudaMemcpyHostToDevice);
}

/// Waits for all work of all streams of a GPU, because the work that uses a block is unknown here.
/// CUDA refuses this while any stream there is being captured, in every mode, and invalidates the
/// capture.
static void wait_for_all_work(int device) {
  if (!returns_in_time(device, [] { require(cudaDeviceSynchronize(), "work on the GPU"); })) give_up("work on the GPU", 0);
}

/// Copies after all work of all streams. For debugging and tests.
void DeviceBlocks::copy(void* to, const void* from, u64 bytes, cudaMemcpyKind kind) const {
  const OnDevice on(static_cast<int>(device()));
  wait_for_all_work(static_cast<int>(device()));
  const Stream stream;
  require(cudaMemcpyAsync(to, from, bytes, kind, stream.get()), "cudaMemcpyAsync");
  if (!wait_for(stream.get(), "a copy of a block")) give_up("a copy of a block", bytes);
}

std::unique_ptr<BlockMemory> allocate_blocks(Place place, u32 device, u64 bytes) {
  if (place == Place::kHost) return std::make_unique<HostBlocks>(bytes);
  require_device(device);
  const OnDevice on(static_cast<int>(device));
  if (place == Place::kPinned) return std::make_unique<PinnedBlocks>(device, bytes);
  return std::make_unique<DeviceBlocks>(device, bytes);
}

}  // namespace blockstep::cuda
