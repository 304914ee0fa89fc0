#include "request_table.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "../../base/error.h"

namespace blockstep {
namespace {

/// Adds half of the need, so that appends cost amortised constant time and little memory is unused.
u32 grown_capacity(u32 need) { return static_cast<u32>(std::min<u64>(need + u64{need} / 2 + 16, kMaxTokens)); }

u64 token_bytes(const Slot& slot) { return u64{slot.token_capacity} * sizeof(*slot.tokens); }
u64 hash_bytes(const Slot& slot) { return u64{slot.hash_capacity} * sizeof(*slot.hashes); }

}  // namespace

RequestTable::~RequestTable() {
  for (Slot& slot : slots_) free_arrays(slot);
}

u32 RequestTable::open(const std::int32_t* tokens, u32 count, const Key& root) {
  Slot draft{};
  draft.next_free = kOpenSlot;
  draft.row = kNone;
  draft.publish_at = kNone;
  u32 index;
  try {
    // Prompts of equal length that decode in step would all grow in the same step. Additional room
    // for some of them spreads the growth.
    draft.token_capacity = std::min(grown_capacity(count) + num_open_ % 128, kMaxTokens);
    draft.tokens = static_cast<std::int32_t*>(pool_.take(token_bytes(draft)));
    if (count > 0) std::memcpy(draft.tokens, tokens, count * sizeof(*tokens));
    draft.num_tokens = count;
    if (hashing_) {
      grow_hashes(draft, draft.token_capacity / block_size_ + 1);
      draft.hashes[0] = root;
      extend_hashes(draft, count / block_size_);
    }
    index = take_slot();
  } catch (...) {
    free_arrays(draft);
    throw;
  }
  draft.generation = slots_[index].generation;
  slots_[index] = draft;
  num_open_ += 1;
  owned_bytes_ += token_bytes(draft) + hash_bytes(draft);
  return index;
}

void RequestTable::close(u32 index) noexcept {
  Slot& slot = slots_[index];
  owned_bytes_ -= token_bytes(slot) + hash_bytes(slot);
  free_arrays(slot);
  const u32 generation = slot.generation;
  slot = Slot{};
  slot.row = kNone;
  slot.publish_at = kNone;
  num_open_ -= 1;
  // A slot without unused generations is never opened again, because a handle must not become valid
  // again.
  slot.generation = generation + 1;
  slot.next_free = kNone;
  if (slot.generation == 0) return;
  slot.next_free = first_free_;
  first_free_ = index;
}

void RequestTable::truncate(Slot& slot, u32 count) noexcept {
  if (count >= slot.num_tokens) return;
  slot.num_tokens = count;
  slot.num_hashes = std::min(slot.num_hashes, count / block_size_);
}

void RequestTable::rewind(Slot& slot, u32 count) {
  if (count >= slot.num_tokens) return;
  extend_hashes(slot, full_blocks(slot));
  slot.num_tokens = count;
}

void RequestTable::extend_hashes(Slot& slot, u32 blocks) {
  if (!hashing_ || blocks <= slot.num_hashes) return;
  make_room(slot, blocks);
  const u64 done = slot.num_hashes;
  hash_chain(lanes_, seed_, block_size_, slot.tokens + done * block_size_, blocks - slot.num_hashes, slot.hashes + done);
  slot.num_hashes = blocks;
}

void RequestTable::hash_next(Span<Slot* const> slots) {
  unhashed_.clear();
  for (u32 i = 0; i < slots.size; ++i) {
    Slot& slot = *slots.data[i];
    const u64 done = slot.num_hashes;
    make_room(slot, slot.num_hashes + 1);
    unhashed_.push_back({slot.tokens + done * block_size_, slot.hashes + done});
  }
  hash_blocks(lanes_, seed_, block_size_, {unhashed_.data(), slots.size});
  for (u32 i = 0; i < slots.size; ++i) slots.data[i]->num_hashes += 1;
}

u32 RequestTable::take_slot() {
  if (first_free_ != kNone) {
    const u32 index = first_free_;
    first_free_ = slots_[index].next_free;
    return index;
  }
  if (slots_.size() == kSlotLimit) throw Error{kLimit, "all 2097152 slots of the request table are open"};
  slots_.push_back(Slot{});
  slots_.back().generation = 1;
  return static_cast<u32>(slots_.size() - 1);
}

void RequestTable::grow_tokens(Slot& slot) {
  const u64 before = token_bytes(slot);
  const u32 capacity = grown_capacity(slot.token_capacity);
  if (capacity == slot.token_capacity) throw std::bad_alloc();
  slot.tokens = static_cast<std::int32_t*>(pool_.resize(slot.tokens, before, u64{capacity} * sizeof(*slot.tokens)));
  slot.token_capacity = capacity;
  owned_bytes_ += token_bytes(slot) - before;
}

void RequestTable::grow_hashes(Slot& slot, u32 keys) {
  slot.hashes = static_cast<Key*>(pool_.resize(slot.hashes, hash_bytes(slot), u64{keys} * sizeof(Key)));
  slot.hash_capacity = keys;
}

/// Makes room for `hashes` hashes after the root. @throws std::bad_alloc
void RequestTable::make_room(Slot& slot, u32 hashes) {
  if (hashes < slot.hash_capacity) return;
  const u64 before = hash_bytes(slot);
  grow_hashes(slot, grown_capacity(hashes + 1));
  owned_bytes_ += hash_bytes(slot) - before;
}

void RequestTable::free_arrays(Slot& slot) noexcept {
  pool_.give(slot.tokens, token_bytes(slot));
  pool_.give(slot.hashes, hash_bytes(slot));
}

}  // namespace blockstep
