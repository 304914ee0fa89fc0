// The bytes of an arena, wherever they are.
#pragma once

#include <cstring>

#include "../base/memory.h"

namespace blockstep {

/// Where memory is: on the host, on the host and known to CUDA (pinned), or on a GPU.
enum class Place : u32 { kHost, kPinned, kDevice };

/// One piece of zeroed memory, freed with this object.
class BlockMemory {
 public:
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  virtual ~BlockMemory() = default;

  Place place() const { return place_; }
  /// The number of the GPU whose memory this is, or under whose context it was pinned. 0 for memory of the host.
  u32 device() const { return device_; }
  u64 bytes() const { return bytes_; }
  /// The first byte. For kDevice this is an address of the GPU, which the host must not touch.
  u8* base() const { return base_; }
  /// The first byte as a kernel sees it. Null for kHost.
  u8* on_device() const { return on_device_; }

  /// Copies out of this memory, and into it. For kDevice the GPU copies, and the call waits for that: it is for tests and
  /// for debugging.
  /// @throws Error kCuda
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

/// Memory of the host. It takes pages where it is written.
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
