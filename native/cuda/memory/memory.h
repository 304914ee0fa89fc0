// Memory of a GPU, and pinned memory of the host. Neither taking nor giving back waits for work on the GPU, but for pinned
// memory in amounts that pinned_slabs.h names.
#pragma once

#include "pinned_slabs.h"
#include "../base/stream.h"

namespace blockstep::cuda {

/// Bytes that stay allocated until the process ends, because work that uses them did not end in time.
u64 abandoned_bytes();
void count_abandoned(u64 bytes);

/// Memory of the current GPU, from a pool. No work may use it any more when the object is destroyed.
/// @throws Error kNoMemory, kCuda
class DeviceMemory {
 public:
  explicit DeviceMemory(u64 bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  u8* base() const { return static_cast<u8*>(base_); }
  u64 bytes() const { return bytes_; }
  /// Work may use the memory for ever: it is never freed.
  void abandon();

 private:
  int device_ = 0;
  bool pooled_ = false;
  void* base_ = nullptr;
  u64 bytes_;
};

/// Zeroed, pinned memory of the host that every GPU can read and write, a piece of a slab. It is not write-combined, because
/// the host reads it. No work may use it any more when the object is destroyed.
/// @throws Error kNoMemory, kCuda
class MappedMemory {
 public:
  explicit MappedMemory(u64 bytes);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory();

  u8* base() const { return piece_.base; }
  /// The address by which a GPU reaches the byte that the host has at `address`.
  template <class T>
  T* on_device(T* address) const {
    return reinterpret_cast<T*>(piece_.on_device + (reinterpret_cast<u8*>(address) - base()));
  }
  u64 bytes() const { return piece_.bytes; }
  /// Work may use the memory for ever: no other piece takes its place.
  void abandon();

 private:
  PinnedPiece piece_;
};

}  // namespace blockstep::cuda
