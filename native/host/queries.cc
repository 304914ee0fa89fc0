// What can be asked of a core. Queries drain first and change nothing else.
#include <algorithm>

#include "../core/audit/digest.h"
#include "../core/audit/verify.h"
#include "core.h"

namespace blockstep {

u64 HostCore::handle(u32 slot) {
  drain();
  return table_.is_open(slot) ? table_.handle(slot) : 0;
}

u32 HostCore::num_tokens(u32 slot) {
  drain();
  return open_slot(slot).num_tokens;
}

u32 HostCore::read_tokens(u32 index, u32 from, Span<std::int32_t> out) {
  drain();
  const Slot& slot = open_slot(index);
  if (from >= slot.num_tokens) return 0;
  const u32 n = std::min(out.size, slot.num_tokens - from);
  std::copy_n(slot.tokens + from, n, out.data);
  return n;
}

u32 HostCore::read_blocks(u32 index, u32 from, Span<std::int32_t> out) {
  drain();
  const Slot& slot = open_slot(index);
  if (from >= slot.num_blocks) return 0;
  const u32 n = std::min(out.size, slot.num_blocks - from);
  std::copy_n(blocks_of(state_, slot.row) + from, n, out.data);
  return n;
}

u32 HostCore::read_free_queue(Span<std::int32_t> out) {
  drain();
  SoloTeam solo;
  u32 n = 0;
  for (u64 place = state_.head; place < state_.tail && n < out.size; ++place) {
    if (is_live(solo, state_, place)) {
      out.data[n++] = static_cast<std::int32_t>(state_.ring[static_cast<u32>(place) & state_.ring_mask]);
    }
  }
  return n;
}

u32 HostCore::read_published(Span<std::int32_t> out) {
  drain();
  u32 n = 0;
  for (u32 id = 1; id < config_.pool.num_blocks && n < out.size; ++id) {
    if (state_.blocks[id].flags & kPublished) out.data[n++] = static_cast<std::int32_t>(id);
  }
  return n;
}

u32 HostCore::ref_count(u32 id) {
  drain();
  return state_.blocks[id].ref;
}

u32 HostCore::block_generation(u32 id) {
  drain();
  return state_.blocks[id].generation;
}

Key HostCore::block_hash(u32 index, u32 block) {
  drain();
  Slot& slot = open_slot(index);
  if (!config_.caching) throw Error{kBadArg, "blocks have no hash: prefix caching is off"};
  const u32 full = table_.full_blocks(slot);
  if (block >= full) {
    throw Error{kBadArg, "slot " + std::to_string(index) + " has " + std::to_string(full) +
                             " full blocks, so there is none with index " + std::to_string(block)};
  }
  table_.extend_hashes(slot, block + 1);
  return slot.hashes[block + 1];
}

u64 HostCore::digest() {
  drain();
  return blockstep::digest(state_);
}

u64 HostCore::rolling_digest() {
  drain();
  return state_.rolling_digest;
}

/// Every invariant of the state, and that slots and rows say the same.
void HostCore::verify() {
  drain();
  const char* broken = blockstep::verify(state_);
  if (!broken) broken = verify_slots();
  if (broken) poison(broken);
}

const char* HostCore::verify_slots() const {
  std::vector<bool> held(config_.pool.num_rows, false);
  u32 open = 0;
  u32 holders = 0;
  for (u32 index = 0; index < table_.size(); ++index) {
    const Slot& slot = table_[index];
    if (!table_.is_open(index)) {
      if (slot.row != kNone || slot.tokens) return "slots: a closed slot holds something";
      continue;
    }
    open += 1;
    if (slot.num_tokens > slot.token_capacity) return "slots: more tokens than room";
    if (slot.num_hashes > table_.full_blocks(slot)) return "slots: a block is hashed that is not full";
    if (slot.row == kNone) {
      if (slot.num_blocks || slot.room || slot.publish_at != kNone) return "slots: blocks without a row";
      continue;
    }
    const Row& row = state_.rows[slot.row];
    if (held[slot.row]) return "slots: two slots hold one row";
    held[slot.row] = true;
    holders += 1;
    if (!row.in_use || free_rows_.contains(slot.row)) return "slots: a held row counts as free";
    if (row.num_blocks != slot.num_blocks) return "slots: slot and row differ in their number of blocks";
    if (slot.num_published > slot.num_blocks) return "slots: more blocks published than held";
  }
  if (open != table_.num_open()) return "slots: num_open is not the number of open slots";
  if (holders != state_.rows_in_use) return "slots: a row in use belongs to no slot";
  return nullptr;
}

}  // namespace blockstep
