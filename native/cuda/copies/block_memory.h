// The bytes of arenas in pinned memory and on a GPU.
#pragma once

#include "../../transfer/block_memory.h"
#include "../memory/memory.h"

namespace blockstep::cuda {

/// Pinned host memory. A copy engine accesses it directly, and so do kernels of every GPU.
class PinnedBlocks final : public BlockMemory {
 public:
  /// `device` is the current GPU of this thread. @throws Error kNoMemory, kCuda
  PinnedBlocks(u32 device, u64 bytes) : BlockMemory(Place::kPinned, device, bytes), memory_(bytes) {
    bind(memory_.base(), memory_.on_device(memory_.base()));
  }

 private:
  MappedMemory memory_;
};

/// Memory of a GPU.
class DeviceBlocks final : public BlockMemory {
 public:
  /// `device` is the current GPU of this thread. Waits until all bytes are zero. @throws Error
  /// kNoMemory, kCuda
  DeviceBlocks(u32 device, u64 bytes);

  void read(u64 from, void* to, u64 bytes) const override;
  void write(u64 to, const void* from, u64 bytes) override;

 private:
  void copy(void* to, const void* from, u64 bytes, cudaMemcpyKind kind) const;

  DeviceMemory memory_;
};

}  // namespace blockstep::cuda
