// GPU memory, and pinned host memory. Allocation and release do not wait for work on the GPU,
// except for large amounts of pinned memory: see pinned_slabs.h.
#pragma once

#include "pinned_slabs.h"
#include "../base/stream.h"

namespace blockstep::cuda {

/// Bytes that stay allocated until the process ends, because the work that uses them did not end in
/// time.
u64 abandoned_bytes();
void count_abandoned(u64 bytes);

/// Memory of the current GPU, from a pool. No work may use it when the object is destroyed.
/// @throws Error kNoMemory, kCuda
class DeviceMemory {
 public:
  explicit DeviceMemory(u64 bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  u8* base() const { return static_cast<u8*>(base_); }
  u64 bytes() const { return bytes_; }
  /// Work may use the memory forever, so it is never freed.
  void abandon();

 private:
  int device_ = 0;
  bool pooled_ = false;
  void* base_ = nullptr;
  u64 bytes_;
};

/// Zeroed, pinned host memory that every GPU can read and write, a piece of a slab. It is not
/// write-combined, because the host reads it. No work may use it when the object is destroyed.
/// @throws Error kNoMemory, kCuda
class MappedMemory {
 public:
  explicit MappedMemory(u64 bytes);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory();

  u8* base() const { return piece_.base; }
  /// The GPU's address of the byte at host address `address`.
  template <class T>
  T* on_device(T* address) const {
    return reinterpret_cast<T*>(piece_.on_device + (reinterpret_cast<u8*>(address) - base()));
  }
  u64 bytes() const { return piece_.bytes; }
  /// Work may use the memory forever, so no other piece reuses it.
  void abandon();

 private:
  PinnedPiece piece_;
};

}  // namespace blockstep::cuda
