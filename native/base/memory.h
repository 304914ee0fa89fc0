// Zeroed memory on the host, and a State in memory of its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

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

  /// Asks for huge pages under the first `bytes` bytes, before they are written: what is looked at anywhere in a large
  /// piece of memory misses the TLB with small pages. A hint, which the operating system may pass over.
  void ask_for_huge_pages([[maybe_unused]] u64 bytes) const {
#if defined(__linux__)
    constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
    const auto begin = (reinterpret_cast<std::uintptr_t>(base()) + kHuge - 1) & ~(kHuge - 1);
    const auto end = (reinterpret_cast<std::uintptr_t>(base()) + bytes) & ~(kHuge - 1);
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
  }

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
    // Not under the lists of rows: they take memory only where they are written.
    memory_.ask_for_huge_pages(static_cast<u64>(reinterpret_cast<u8*>(state.rows) - reinterpret_cast<u8*>(state.blocks)));
    init_state(state);
  }
  u64 bytes() const { return memory_.bytes(); }

 private:
  Memory memory_;

 public:
  State state;
};

}  // namespace blockstep
