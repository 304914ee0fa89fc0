#include "admissions.h"

#include <algorithm>
#include <string>

namespace blockstep {

u32 Admissions::match(u32 index, u32 max_blocks) {
  Slot& slot = slots_.open_slot(index);
  match_.slot = kNone;
  const u32 n = config_.caching ? std::min({table_.full_blocks(slot), max_blocks, config_.pool.max_blocks_per_row}) : 0;
  u32 hits = 0;
  u32 hit_free = 0;
  if (n > 0) {
    table_.extend_hashes(slot, n);
    SoloTeam solo;
    hits = lookup(solo, state_, slot.hashes + 1, n, match_.ids.data());
    for (u32 i = 0; i < hits; ++i) hit_free += state_.blocks[match_.ids[i]].ref == 0;
  }
  match_.slot = index;
  match_.version = state_.num_commands;
  match_.count = hits;
  exchange_.control(kHitFree) = static_cast<std::int32_t>(hit_free);
  return hits;
}

/// The first `hit_blocks` cached blocks of the slot. They come from the last match() if the state
/// has not changed since, otherwise from a new lookup. @throws Error kBadArg if fewer blocks are
/// now cached
Span<const u32> Admissions::hits_for(u32 index, u32 hit_blocks) {
  if (hit_blocks == 0) return {match_.ids.data(), 0};
  const bool fresh = match_.slot == index && match_.version == state_.num_commands && match_.count >= hit_blocks;
  const u32 found = fresh ? match_.count : match(index, hit_blocks);
  if (found < hit_blocks) {
    throw Error{kBadArg, "hitBlocks is " + std::to_string(hit_blocks) + ", but only " + std::to_string(found) +
                             " blocks are cached: match again"};
  }
  return {match_.ids.data(), hit_blocks};
}

std::int32_t Admissions::admit(u32 index, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens,
                               u32 spare_blocks, u32 reserved_blocks) {
  Slot& slot = slots_.open_slot(index);
  const u32 limit = config_.max_model_len;
  if (need_tokens > limit || reserve_tokens > limit) {
    throw Error{kBadArg, "needTokens and reserveTokens must be at most maxModelLen (" + std::to_string(limit) +
                             "), got " + std::to_string(need_tokens) + " and " + std::to_string(reserve_tokens)};
  }
  const bool opens = slot.row == kNone;
  if (!opens && hit_blocks != 0) {
    throw Error{kBadArg, "hitBlocks must be 0 for slot " + std::to_string(index) + ", which holds a row already"};
  }
  const Span<const u32> hits = hits_for(index, hit_blocks);
  const u32 held = slot.num_blocks + hits.size;
  u32 hit_free = 0;
  for (u32 i = 0; i < hits.size; ++i) hit_free += state_.blocks[hits.data[i]].ref == 0;
  const u32 total = std::max(config_.blocks_for(need_tokens), held);
  const u32 reserve = std::max(config_.blocks_for(reserve_tokens), total);
  const u64 wanted = std::max(u64{reserve}, u64{total} + reserved_blocks) - held + hit_free + spare_blocks;
  if (wanted > state_.num_free) return kNotEnoughBlocks;
  const u32 row = opens ? slots_.free_rows().lowest() : slot.row;
  if (row == kNone) return kNoFreeRow;

  const u32 published = opens ? hits.size : slot.num_published;
  const u32 full = config_.caching ? std::min(publish_tokens, slot.num_tokens) / config_.block_size : 0;
  const u32 publish_to = std::max(published, std::min(full, total));
  if (opens && facts_.events().on()) [[unlikely]] {
    facts_.events().reused({table_.handle(index), 0, 0, nullptr, nullptr, slot.tokens},
                           {slot.hashes + 1, slot.hashes + 1 + hits.size});
  }
  facts_.begin();
  if (opens) facts_.log().open_row(row, hits.data, hits.size);
  if (total > held) facts_.log().extend(row, total - held);
  slots_.log_publications(slot, row, held, published, publish_to);
  facts_.commit();
  if (opens) slots_.free_rows().take(row);
  slots_.set_row(slot, row, total, publish_to);
  facts_.publish_counts();
  return static_cast<std::int32_t>(row);
}

}  // namespace blockstep
