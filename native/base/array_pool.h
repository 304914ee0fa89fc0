// A memory pool for the growing arrays of one owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "memory.h"

namespace blockstep {

/// A pool for arrays of trivial elements. Sizes are rounded up to classes, two for each power of
/// two. The next array of a class takes memory that an earlier array gave back. A server that has
/// run for a while therefore asks the operating system for no memory. Touching a new page costs
/// more than a decode step of many requests. Arrays above kLargest come from malloc(). The pool
/// keeps its memory until it ends.
class ArrayPool {
 public:
  ArrayPool() = default;
  ArrayPool(const ArrayPool&) = delete;
  ArrayPool& operator=(const ArrayPool&) = delete;

  /// Memory for `bytes` bytes, aligned to 16 at least; not zeroed. @throws std::bad_alloc, Error
  /// kNoMemory
  void* take(u64 bytes) {
    if (bytes > kLargest) return take_large(nullptr, bytes);
    const u32 c = class_of(bytes);
    if (free_[c] == nullptr) return take_new(room_of(c));
    Free* const array = free_[c];
    free_[c] = array->next;
    return array;
  }

  /// Gives back the memory that take(bytes) or resize(.., bytes) returned. Null is ignored.
  void give(void* array, u64 bytes) noexcept {
    if (array == nullptr) return;
    if (bytes > kLargest) std::free(array);
    else push(array, class_of(bytes));
  }

  /// Returns an array of `bytes` bytes that replaces a smaller array of `old_bytes` bytes and has
  /// its content. If it throws, the old array is untouched. @param array null if there was no array
  /// @throws std::bad_alloc, Error kNoMemory
  void* resize(void* array, u64 old_bytes, u64 bytes) {
    if (array == nullptr) return take(bytes);
    if (old_bytes > kLargest) return take_large(array, bytes);
    if (bytes <= kLargest && class_of(bytes) == class_of(old_bytes)) return array;
    void* const grown = take(bytes);
    std::memcpy(grown, array, old_bytes);
    give(array, old_bytes);
    return grown;
  }

  /// Bytes that the operating system gave, without arrays above kLargest.
  u64 bytes() const { return total_; }

 private:
  struct Free {
    Free* next;
  };
  static constexpr u32 kSmallestBits = 8;
  static constexpr u32 kLargestBits = 19;
  static constexpr u64 kSmallest = u64{1} << kSmallestBits;
  static constexpr u64 kLargest = u64{1} << kLargestBits;
  static constexpr u64 kFirstChunk = u64{64} << 10;
  static constexpr u64 kLargestChunk = Memory::kHugePage;
  static constexpr u32 kClasses = 2 * (kLargestBits - kSmallestBits) + 1;

  /// Class 2k has room for 2^(8 + k) bytes, class 2k + 1 for half as much again.
  static constexpr u64 room_of(u32 c) { return (c % 2 == 0 ? u64{2} : u64{3}) << (c / 2 + kSmallestBits - 1); }
  static constexpr u32 class_of(u64 bytes) {
    if (bytes <= kSmallest) return 0;
    const u32 bits = static_cast<u32>(std::bit_width(bytes - 1));  // 2^(bits - 1) < bytes <= 2^bits
    const u32 full = 2 * (bits - kSmallestBits);
    return bytes <= room_of(full - 1) ? full - 1 : full;
  }

  static void* take_large(void* array, u64 bytes) {
    void* const grown = bytes > SIZE_MAX ? nullptr : std::realloc(array, static_cast<std::size_t>(bytes));
    if (grown == nullptr) throw std::bad_alloc();
    return grown;
  }

  void push(void* array, u32 c) noexcept {
    free_[c] = new (array) Free{free_[c]};
  }

  /// Takes memory that no array has used yet.
  void* take_new(u64 room) {
    if (end_ - next_ < static_cast<std::ptrdiff_t>(room)) begin_chunk(room);
    void* const array = next_;
    next_ += room;
    return array;
  }

  /// Begins a chunk as large as all earlier chunks together. The rest of the last chunk goes to the
  /// free lists.
  void begin_chunk(u64 room) {
    const u64 bytes = std::clamp(total_, std::max(kFirstChunk, room), kLargestChunk);
    const bool is_huge = bytes == Memory::kHugePage;
    auto chunk = std::make_unique<Memory>(bytes, is_huge ? Memory::kHugePage : 64);
    // The operating system gives all pages at once, as huge pages. Touching them one by one takes
    // ten times as long, and would slow as many steps.
    if (is_huge) {
      chunk->ask_for_huge_pages(bytes);
      chunk->populate();
    }
    chunks_.reserve(chunks_.size() + 1);
    for (u32 c = kClasses; c-- > 0;) {
      for (; end_ - next_ >= static_cast<std::ptrdiff_t>(room_of(c)); next_ += room_of(c)) push(next_, c);
    }
    next_ = static_cast<u8*>(chunk->base());
    end_ = next_ + bytes;
    total_ += bytes;
    chunks_.push_back(std::move(chunk));
  }

  Free* free_[kClasses] = {};
  u8* next_ = nullptr;
  u8* end_ = nullptr;
  u64 total_ = 0;
  std::vector<std::unique_ptr<Memory>> chunks_;
};

}  // namespace blockstep
