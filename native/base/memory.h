// Zeroed memory on the host, and a State that owns its memory.
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

/// A zeroed and aligned allocation that is freed exactly once. It comes from calloc(). The
/// operating system provides zeroed pages of a large allocation on first use. A huge KV slot table
/// therefore costs only address space until it is written.
class Memory {
 public:
  /// @param alignment a power of two
  /// @throws Error kNoMemory
  explicit Memory(u64 bytes, u64 alignment = 64) : bytes_(bytes), alignment_(static_cast<std::uintptr_t>(alignment)) {
    if (bytes <= SIZE_MAX - alignment_) allocation_ = std::calloc(1, static_cast<std::size_t>(bytes) + alignment_);
    if (!allocation_) throw Error{kNoMemory, "could not allocate " + std::to_string(bytes) + " bytes"};
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(allocation_); }

  void* base() const {
    const auto address = reinterpret_cast<std::uintptr_t>(allocation_);
    return reinterpret_cast<void*>((address + alignment_ - 1) & ~(alignment_ - 1));
  }
  u64 bytes() const { return bytes_; }

  /// Asks for huge pages under the first `bytes` bytes, before they are written. With small pages,
  /// random accesses to a large allocation miss the TLB. This is a hint, which the operating system
  /// may ignore.
  void ask_for_huge_pages([[maybe_unused]] u64 bytes) const {
#if defined(__linux__)
    advise(bytes, kHugePage, MADV_HUGEPAGE);
#endif
  }

  /// Asks the operating system for all pages now, instead of one by one at the first write. This is
  /// a hint.
  void populate() const {
#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
    advise(bytes_, 4096, MADV_POPULATE_WRITE);
#endif
  }

  /// Bytes of a huge page.
  static constexpr u64 kHugePage = u64{2} << 20;

 private:
#if defined(__linux__)
  /// Advises the operating system about the whole pages within the first `bytes` bytes.
  void advise(u64 bytes, std::uintptr_t page, int advice) const {
    const auto begin = (reinterpret_cast<std::uintptr_t>(base()) + page - 1) & ~(page - 1);
    const auto end = (reinterpret_cast<std::uintptr_t>(base()) + bytes) & ~(page - 1);
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
  }
#endif

  void* allocation_ = nullptr;
  u64 bytes_;
  std::uintptr_t alignment_;
};

/// A State in its own memory, initialised.
class OwnedState {
 public:
  /// The configuration must be valid(). @throws Error kNoMemory
  explicit OwnedState(const Config& config) : memory_(state_bytes(config)) {
    bind_state(state, config, memory_.base());
    // The lists of rows get no huge pages, because they take memory only where they are written.
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
