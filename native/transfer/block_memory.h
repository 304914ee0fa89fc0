// BlockMemory: the bytes of an arena, on the host or on a GPU.
#pragma once

#include <cstring>

#include "../base/memory.h"

namespace blockstep {

/// Location of memory. kHost: on the host, unknown to CUDA. kPinned: on the host, pinned and mapped
/// by CUDA, so GPUs can read and write it. kDevice: on a GPU.
enum class Place : u32 { kHost, kPinned, kDevice };

/// A range of zeroed memory, freed with this object.
class BlockMemory {
 public:
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  virtual ~BlockMemory() = default;

  Place place() const { return place_; }
  /// kDevice: the ordinal of the GPU that has this memory. kPinned: the GPU under whose context it
  /// was pinned. kHost: 0.
  u32 device() const { return device_; }
  u64 bytes() const { return bytes_; }
  /// The first byte. For kDevice this is an address of the GPU, and the host must not touch it.
  u8* base() const { return base_; }
  /// The first byte at its address for kernels. Null for kHost.
  u8* on_device() const { return on_device_; }

  /// Copies `bytes` bytes out of this memory, or into it. `from` and `to` are offsets in bytes from
  /// base(). For kDevice the GPU copies and the call waits for the copy, so it is for tests and
  /// debugging. @throws Error kCuda
  virtual void read(u64 from, void* to, u64 bytes) const { std::memcpy(to, base_ + from, bytes); }
  virtual void write(u64 to, const void* from, u64 bytes) { std::memcpy(base_ + to, from, bytes); }

 protected:
  BlockMemory(Place place, u32 device, u64 bytes) : place_(place), device_(device), bytes_(bytes) {}
  void bind(void* base, void* on_device) {
    base_ = static_cast<u8*>(base);
    on_device_ = static_cast<u8*>(on_device);
  }

 private:
  Place place_;
  u32 device_;
  u64 bytes_;
  u8* base_ = nullptr;
  u8* on_device_ = nullptr;
};

/// Host memory. The operating system provides its pages at the first write.
class HostBlocks final : public BlockMemory {
 public:
  /// @throws Error kNoMemory
  explicit HostBlocks(u64 bytes) : BlockMemory(Place::kHost, 0, bytes), memory_(bytes) {
    bind(memory_.base(), nullptr);
  }

 private:
  Memory memory_;
};

}  // namespace blockstep
