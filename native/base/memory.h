// Zeroed memory on the host, and a State in memory of its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "../core/base/state.h"
#include "error.h"

namespace blockstep {

/// One zeroed, 64-byte aligned allocation that is freed exactly once. It comes from calloc(): the operating system
/// hands out the zeroed pages of a large allocation on first use, so a huge KV slot table costs only address space
/// until it is written.
class Memory {
 public:
  /// @throws Error kNoMemory
  explicit Memory(u64 bytes) : bytes_(bytes) {
    if (bytes <= SIZE_MAX - kAlignment) allocation_ = std::calloc(1, static_cast<std::size_t>(bytes) + kAlignment);
    if (!allocation_) throw Error{kNoMemory, "could not allocate " + std::to_string(bytes) + " bytes"};
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(allocation_); }

  void* base() const {
    const auto address = reinterpret_cast<std::uintptr_t>(allocation_);
    return reinterpret_cast<void*>((address + kAlignment - 1) & ~(kAlignment - 1));
  }
  u64 bytes() const { return bytes_; }

 private:
  static constexpr std::uintptr_t kAlignment = 64;
  void* allocation_ = nullptr;
  u64 bytes_;
};

/// A State in its own memory, in its initial state.
class OwnedState {
 public:
  /// The configuration must be valid(). @throws Error kNoMemory
  explicit OwnedState(const Config& config) : memory_(state_bytes(config)) {
    bind_state(state, config, memory_.base());
    init_state(state);
  }
  u64 bytes() const { return memory_.bytes(); }

 private:
  Memory memory_;

 public:
  State state;
};

}  // namespace blockstep
