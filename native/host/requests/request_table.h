// The request table: token ids and chained block hashes of every open slot, from its addition until
// the request ends.
#pragma once

#include <string_view>
#include <vector>

#include "../../base/array_pool.h"
#include "../../base/span.h"
#include "../../core/base/types.h"
#include "hash_lanes.h"

namespace blockstep {

/// Slots fit in 21 bits, so that the handle slot + generation * 2^21 is a safe integer in
/// JavaScript.
constexpr u32 kSlotLimit = 1u << 21;

/// Exclusive limit of token ids, and inclusive limit of token counts.
constexpr u32 kMaxTokens = 0x7fffffffu;

/// One request. A Slot is exactly one cache line, because a decode step visits the slot of every
/// running request. `room` and `publish_at` are thresholds derived from the other fields. An entry
/// below both needs no blocks and fills none, which costs two comparisons.
struct alignas(64) Slot {
  std::int32_t* tokens;  // [num_tokens], with room for token_capacity
  // Hashes[0]: root, hashes[i + 1]: block i; room for hash_capacity; null if not hashing.
  Key* hashes;
  u32 num_tokens;
  u32 token_capacity;
  u32 num_hashes;     // number of hashed blocks; at most num_tokens / block_size
  u32 hash_capacity;
  u32 row;            // row of the KV slot table; kNone without one
  u32 num_blocks;     // blocks of the row
  u32 room;           // tokens that fit into these blocks; 0 without a row
  u32 num_published;  // leading blocks of the row that were hits, or that this request published
  // Token count at which the next block becomes publishable; kNone without a row or caching.
  u32 publish_at;
  // Generation of the handle: number of requests of the slot, including the current or next request.
  u32 generation;
  u32 next_free;      // next closed slot, or kOpenSlot
  // 1 while a plan lists this slot, to find a slot that repeats in one frame or request.
  u32 mark;
};
static_assert(sizeof(Slot) == 64);

constexpr u32 kOpenSlot = kNone - 1;

class RequestTable {
 public:
  /// `hashing`: keep block hashes (prefix caching is on).
  RequestTable(u32 block_size, bool hashing, const Key& seed)
      : block_size_(block_size), hashing_(hashing), seed_(seed) {}
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;
  ~RequestTable();

  /// Opens a slot for a prompt of `count` tokens, 0 if they are appended later. Hashes its full
  /// blocks, with `root` as the start of the chain. Changes nothing if it throws. @throws Error
  /// kLimit, std::bad_alloc
  u32 open(const std::int32_t* tokens, u32 count, const Key& root);

  /// Closes an open slot, frees its tokens and hashes, and invalidates its handle. The caller has
  /// released its row.
  void close(u32 slot) noexcept;

  /// The common case of append(). Appends the token and returns true if the slot is open, has room
  /// without growth, and the token id is valid. Otherwise does nothing and returns false. (A closed
  /// slot has no room.)
  bool try_append(u32 index, std::int32_t token) {
    if (index >= slots_.size() || static_cast<u32>(token) >= kMaxTokens) return false;
    Slot& slot = slots_[index];
    if (slot.num_tokens == slot.token_capacity) return false;
    slot.tokens[slot.num_tokens++] = token;
    return true;
  }

  /// Adds a sampled token. Changes nothing if it throws. @throws std::bad_alloc
  void append(Slot& slot, std::int32_t token) {
    if (slot.num_tokens == slot.token_capacity) grow_tokens(slot);
    slot.tokens[slot.num_tokens++] = token;
  }

  /// Drops the tokens from `count` on, and the hashes of blocks that are no longer full.
  void truncate(Slot& slot, u32 count) noexcept;

  /// Like truncate(), but keeps every hash, including the hash of a block which is no longer full.
  /// Tokens that are appended next fill that block under the hash of the dropped tokens, and the
  /// hashes of later blocks chain on it. vLLM treats the dropped token of a session in this way.
  /// @throws std::bad_alloc
  void rewind(Slot& slot, u32 count);

  /// Hashes the slot's blocks up to `blocks`, which must be full. Does nothing without hashing.
  /// @throws std::bad_alloc
  void extend_hashes(Slot& slot, u32 blocks);

  /// Hashes the next block of each of these slots, which differ. The blocks must be full, and the
  /// table must be hashing.
  /// @throws std::bad_alloc; nothing is hashed
  void hash_next(Span<Slot* const> slots);

  bool is_open(u32 slot) const { return slot < slots_.size() && slots_[slot].next_free == kOpenSlot; }
  Slot& operator[](u32 slot) { return slots_[slot]; }
  const Slot& operator[](u32 slot) const { return slots_[slot]; }
  const Slot* slots() const { return slots_.data(); }
  /// Number of slots that were ever opened, including closed slots.
  u32 size() const { return static_cast<u32>(slots_.size()); }
  u32 num_open() const { return num_open_; }
  u32 full_blocks(const Slot& slot) const { return slot.num_tokens / block_size_; }
  u64 handle(u32 slot) const { return slot + u64{slots_[slot].generation} * kSlotLimit; }
  /// @param slot a slot of this table
  u64 handle(const Slot& slot) const { return handle(static_cast<u32>(&slot - slots_.data())); }
  /// Bytes of the table, and of the requested memory for tokens and hashes of open slots.
  u64 bytes() const { return slots_.capacity() * sizeof(Slot) + owned_bytes_; }

 private:
  u32 take_slot();
  void grow_tokens(Slot& slot);
  void grow_hashes(Slot& slot, u32 keys);
  void make_room(Slot& slot, u32 hashes);
  void free_arrays(Slot& slot) noexcept;

  u32 block_size_;
  bool hashing_;
  Key seed_;
  const Lanes lanes_ = best_lanes();
  ArrayPool pool_;  // of the tokens and hashes
  std::vector<Slot> slots_;
  std::vector<Unhashed> unhashed_;  // scratch of hash_next()
  u32 first_free_ = kNone;  // free list, most recently closed slot first; kNone: empty
  u32 num_open_ = 0;
  u64 owned_bytes_ = 0;
};

}  // namespace blockstep
