#include "slots.h"

#include <algorithm>
#include <string>

namespace blockstep {

Slot& Slots::open_slot(u32 index) {
  if (!table_.is_open(index)) throw Error{kBadSlot, "slot " + std::to_string(index) + " is not open"};
  return table_[index];
}

void Slots::set_row(Slot& slot, u32 row, u32 num_blocks, u32 num_published) {
  const auto tokens = [&](u32 blocks) {
    return static_cast<u32>(std::min(u64{blocks} * config_.block_size, u64{kNone}));
  };
  slot.row = row;
  slot.num_blocks = num_blocks;
  slot.num_published = num_published;
  slot.room = tokens(num_blocks);
  slot.publish_at = row == kNone || !config_.caching ? kNone : tokens(num_published + 1);
}

void Slots::log_publications(Slot& slot, u32 row, u32 have, u32 from, u32 to) {
  table_.extend_hashes(slot, to);
  for (u32 i = from; i < to; ++i) {
    if (i < have && !facts_.needs_publication(blocks_of(state_, row)[i])) continue;
    if (facts_.events().on()) [[unlikely]] {
      const Key* keys = slot.hashes + i;
      const std::size_t first = std::size_t{i} * config_.block_size;
      facts_.events().announce({table_.handle(slot), 0, i, i == 0 ? nullptr : keys, keys + 1, slot.tokens + first});
    }
    facts_.log().publish(row, i, slot.hashes[i + 1]);
  }
}

void Slots::release_row(Slot& slot) {
  if (slot.row == kNone) return;
  facts_.log().list(Op::kRelease, slot.row);
  free_rows_.put(slot.row);
  set_row(slot, kNone, 0, 0);
}

void Slots::evict_row(Slot& slot, u32 from) {
  if (from >= slot.num_blocks) return;
  const u32* ids = blocks_of(state_, slot.row);
  for (u32 i = from; i < slot.num_blocks; ++i) facts_.log().list(Op::kEvict, ids[i]);
  set_row(slot, slot.row, slot.num_blocks, std::min(slot.num_published, from));
  // A later publication reads from the state whether a block has a key, so the eviction is applied
  // at once.
  facts_.commit();
}

u32 Slots::shared_prefix(const Slot& slot, u32 known) const {
  if (!config_.caching || slot.row == kNone) return 0;
  const u32* ids = blocks_of(state_, slot.row);
  u32 shared = known;
  while (shared < slot.num_blocks && state_.blocks[ids[shared]].ref == state_.rows_in_use) shared += 1;
  return shared;
}

void Slots::publish_common_prefix() {
  const auto head = static_cast<u32>(exchange_.control(kHeadSlot));
  const bool same = counted_.head == head && counted_.ref_changes == facts_.ref_changes();
  const u32 shared = table_.is_open(head) ? shared_prefix(table_[head], same ? counted_.shared : 0) : 0;
  counted_ = {facts_.ref_changes(), head, shared};
  exchange_.control(kCommonPrefix) = static_cast<std::int32_t>(shared);
}

const char* Slots::verify() const {
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
    const Row& row = state_.rows[slot.row * config_.pool.num_groups];  // of the first group
    if (held[slot.row]) return "slots: two slots hold one row";
    held[slot.row] = true;
    holders += 1;
    if (!row.in_use || free_rows_.contains(slot.row)) return "slots: a held row counts as free";
    if (row.num_blocks != slot.num_blocks) return "slots: slot and row differ in their number of blocks";
    if (slot.num_published > slot.num_blocks) return "slots: more blocks published than held";
  }
  if (open != table_.num_open()) return "slots: num_open is not the number of open slots";
  if (holders * config_.pool.num_groups != state_.rows_in_use) return "slots: a row in use belongs to no slot";
  return nullptr;
}

}  // namespace blockstep
