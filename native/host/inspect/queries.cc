#include "queries.h"

#include <algorithm>
#include <string>

#include "../../core/audit/verify.h"

namespace blockstep {

u32 Queries::read_tokens(u32 index, u32 from, Span<std::int32_t> out) const {
  const Slot& slot = slots_.open_slot(index);
  if (from >= slot.num_tokens) return 0;
  const u32 n = std::min(out.size, slot.num_tokens - from);
  std::copy_n(slot.tokens + from, n, out.data);
  return n;
}

u32 Queries::read_blocks(u32 index, u32 from, Span<std::int32_t> out, u32 group) const {
  const Slot& slot = slots_.open_slot(index);
  if (slot.row == kNone) return 0;
  const u32 row = slot.row * config_.pool.num_groups + group;
  const u32 length = state_.rows[row].num_blocks;
  if (from >= length) return 0;
  const u32 n = std::min(out.size, length - from);
  std::copy_n(blocks_of(state_, row) + from, n, out.data);
  return n;
}

u32 Queries::read_free_queue(Span<std::int32_t> out) const {
  SoloTeam solo;
  u32 n = 0;
  for (u64 place = state_.head; place < state_.tail && n < out.size; ++place) {
    if (is_live(solo, state_, place)) {
      out.data[n++] = static_cast<std::int32_t>(state_.ring[static_cast<u32>(place) & state_.ring_mask]);
    }
  }
  return n;
}

u32 Queries::read_published(Span<std::int32_t> out) const {
  u32 n = 0;
  for (u32 id = 1; id < config_.pool.num_blocks && n < out.size; ++id) {
    if (state_.blocks[id].flags & kPublished) out.data[n++] = static_cast<std::int32_t>(id);
  }
  return n;
}

Key Queries::block_hash(u32 index, u32 block) {
  Slot& slot = slots_.open_slot(index);
  if (!config_.caching) throw Error{kBadArg, "blocks have a hash only with prefix caching, which is off in this core"};
  const u32 full = table_.full_blocks(slot);
  if (block >= full) {
    throw Error{kBadArg, "slot " + std::to_string(index) + " has " + std::to_string(full) +
                             " full blocks, so there is none with index " + std::to_string(block)};
  }
  table_.extend_hashes(slot, block + 1);
  return slot.hashes[block + 1];
}

const char* Queries::broken_invariant() const {
  const char* broken = blockstep::verify(state_);
  return broken ? broken : slots_.verify();
}

}  // namespace blockstep
