#include "group_admissions.h"

#include <algorithm>
#include <string>

namespace blockstep {

u32 GroupAdmissions::match(u32 index, u32 most) {
  Slot& slot = slots_.open_slot(index);
  match_.slot = kNone;
  const u32 hit = search_.find(slot, std::min(most, slot.num_tokens));
  u32 free = 0;
  match_.free.assign(rows_.num_groups(), 0);
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    for (u32 id : search_.hits(g)) match_.free[g] += id != kNullBlock && state_.blocks[id].ref == 0;
    free += match_.free[g];
  }
  match_.slot = index;
  match_.version = state_.num_commands;
  match_.most = most;
  match_.hit = hit;
  exchange_.control(kHitFree) = static_cast<std::int32_t>(free);
  return hit;
}

/// Whether search_ has hits of the slot; looks them up again if need be. (Without kCutAllFull a group may have hits where the hit of all
/// is 0.) @throws Error kBadArg if the hit is another one by now
bool GroupAdmissions::has_hits(u32 index, u32 hit) {
  const bool fresh = match_.slot == index && match_.version == state_.num_commands && match_.hit == hit;
  if (!fresh && hit == 0) return false;
  if (!fresh) find_again(index, hit);
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    if (!search_.hits(g).empty()) return true;
  }
  return false;
}

void GroupAdmissions::find_again(u32 index, u32 hit) {
  const u32 found = match(index, match_.slot == index ? match_.most : slots_.open_slot(index).num_tokens - 1);
  if (found == hit) return;
  throw Error{kBadArg, "hitTokens is " + std::to_string(hit) + ", but " + std::to_string(found) +
                           " tokens are cached: match again"};
}

/// Whether the last block of the hit is a state that this step makes.
bool GroupAdmissions::is_unready(u32 index, u32 g) const {
  const std::vector<u32>& hits = search_.hits(g);
  if (!rows_.group(g).mamba() || hits.empty()) return false;
  const Slot& slot = slots_.table()[index];
  const std::size_t hashes = rows_.group(g).block_size / config_.block_size;
  return rows_.is_noted(g, slot.hashes[hits.size() * hashes]);
}

/// Blocks that one group takes from the queue (vLLM get_num_blocks_to_allocate).
u64 GroupAdmissions::need(u32 index, u32 g, u32 tokens, u32 computed, u32 main, bool capped, bool has_hits) const {
  const GroupConfig& group = rows_.group(g);
  const Slot& slot = slots_.table()[index];
  const bool opened = slot.row != kNone;
  const std::size_t num_hits = has_hits ? search_.hits(g).size() : 0;
  const auto unheld = [&](std::size_t from) {
    if (from == 0 && num_hits != 0) return u64{match_.free[g]};
    u64 count = 0;
    for (std::size_t i = from; i < num_hits; ++i) {
      const u32 id = search_.hits(g)[i];
      count += id != kNullBlock && state_.blocks[id].ref == 0;
    }
    return count;
  };
  const u32 length = opened ? rows_.part(index, g).length : 0;
  if (group.type == GroupType::kMambaAlign) {
    const u32 places = rows_.places_for(g, main);
    u64 more = places > num_hits + length ? places - num_hits - length : 0;
    if (more > 0) more = opened && rows_.part(index, g).grown ? 1 : 1 + u64{group.spare_blocks};
    return more + unheld(0);
  }
  u32 places = rows_.places_for(g, tokens);
  if (capped && group.most_blocks != 0) places = std::min(places, group.most_blocks);
  if (opened) return places > length ? places - length : 0;
  const std::size_t skipped = rows_.skipped(g, computed);
  const std::size_t given = std::max(skipped, num_hits);
  return (places > given ? places - given : 0) + unheld(skipped);
}

u64 GroupAdmissions::needed(u32 index, const GroupAdmission& asked, NeededBlocks* by_group) {
  const bool hits = slots_.open_slot(index).row == kNone && has_hits(index, asked.hit);
  const u32 limit = config_.max_model_len;
  const u32 local = asked.computed + asked.hit;
  const u32 total = std::min(local + asked.external, limit);
  const u32 main = total + asked.scheduled;
  const u32 slots = std::min(main + asked.lookahead, limit);
  const u32 reserve = std::min(asked.reserve, limit);
  u64 reserved = 0;
  u64 taken = 0;
  NeededBlocks of_reserve{};
  NeededBlocks of_take{};
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    if (hits && is_unready(index, g)) return kUnready;
    if (reserve > 0) of_reserve[g] = need(index, g, reserve, total, reserve, true, hits);
    of_take[g] = need(index, g, slots, local + asked.external, main, false, hits);
    reserved += of_reserve[g];
    taken += of_take[g];
  }
  if (by_group) *by_group = reserved > taken ? of_reserve : of_take;
  return std::max(reserved, taken);
}

/// Opens the rows of a request: null places in front, then its hits, then the blocks that are to be loaded.
void GroupAdmissions::open(Slot& slot, u32 row, const GroupAdmission& asked) {
  const u32 index = rows_.index_of(slot);
  const u32 total = asked.hit + asked.external;
  const bool hits = has_hits(index, asked.hit);
  const bool settles = hits || asked.external > 0;
  rows_.open(index);
  slot.row = row;
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    GroupPart& part = rows_.part(index, g);
    ids_.clear();
    if (settles) {
      const u32 skipped = rows_.skipped(g, total);
      ids_.assign(skipped, kNullBlock);
      if (hits && search_.hits(g).size() > skipped) {
        ids_.insert(ids_.end(), search_.hits(g).begin() + skipped, search_.hits(g).end());
      }
    }
    part.length = part.settled = static_cast<u32>(ids_.size());
    if (rows_.group(g).type != GroupType::kMambaAlign) {
      while (part.first < part.length && ids_[part.first] == kNullBlock) part.first += 1;
    }
    facts_.log().open_row(rows_.row_of(slot, g), ids_.data(), part.length);
    exchange_.control(kGroupHits, g) = static_cast<std::int32_t>(part.length);
  }
  if (asked.external == 0) return;
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    GroupPart& part = rows_.part(index, g);
    const u32 size = rows_.group(g).block_size;
    const u32 places = (total + size - 1) / size;
    // Nothing is loaded where no later token needs any of it.
    const bool needless = rows_.skipped(g, total) > 0 && rows_.skipped_tokens(g, total) == total;
    if (needless || places <= part.length) continue;
    facts_.log().extend(rows_.row_of(slot, g), places - part.length);
    part.length = places;
  }
  facts_.log().cut();
}

/// Tells which blocks the request found, run by run.
void GroupAdmissions::tell_reused(const Slot& slot) {
  std::vector<Key> keys;
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    const std::vector<u32>& hits = search_.hits(g);
    const u32 size = rows_.group(g).block_size;
    const u32 hashes = size / config_.block_size;
    for (u32 i = 0; i < hits.size(); ++i) {
      if (hits[i] != kNullBlock) keys.push_back(slot.hashes[(i + 1) * hashes]);
      const bool ends = i + 1 == hits.size() || hits[i + 1] == kNullBlock;
      if (keys.empty() || !ends) continue;
      const u32 first = i + 1 - static_cast<u32>(keys.size());
      const Key* parent = first == 0 ? nullptr : &slot.hashes[first * hashes];
      facts_.events().reused({slots_.table().handle(slot), g, first, parent, nullptr, slot.tokens + std::size_t{first} * size}, keys);
      keys.clear();
    }
  }
}

std::int32_t GroupAdmissions::admit(u32 index, const GroupAdmission& asked) {
  Slot& slot = slots_.open_slot(index);
  const bool opens = slot.row == kNone;
  const u32 limit = config_.max_model_len;
  if (!opens && asked.hit != 0) {
    throw Error{kBadArg, "hitTokens must be 0 for slot " + std::to_string(index) + ", which holds rows already"};
  }
  const u32 total = std::min(asked.computed + asked.hit + asked.external, limit);
  const u32 main = total + asked.scheduled;
  const u32 target = std::min(main + asked.lookahead, limit);
  if (!opens) {
    // vLLM tests the whole request first, and lets go what is needed no more before it tests what is taken.
    u64 reserved = 0;
    const u32 reserve = std::min(asked.reserve, limit);
    for (u32 g = 0; reserve > 0 && g < rows_.num_groups(); ++g) {
      reserved += need(index, g, reserve, total, reserve, true, false);
    }
    if (reserved > state_.num_free) return kNotEnoughBlocks;
    facts_.begin();
    for (u32 g = 0; g < rows_.num_groups(); ++g) {
      u32 extra;
      const Places places = rows_.to_drop(slot, g, total, extra);
      rows_.note_dropped(slot, g, places, extra);
      rows_.log_drop(slot, g, places, extra);
    }
    facts_.commit();
    rows_.refresh(slot);
    facts_.publish_counts();
    u64 taken = 0;
    for (u32 g = 0; g < rows_.num_groups(); ++g) taken += need(index, g, target, total, main, false, false);
    if (taken > state_.num_free) return kNotEnoughBlocks;
  } else if (needed(index, asked) > state_.num_free) {
    return kNotEnoughBlocks;
  }
  const u32 row = opens ? slots_.free_rows().lowest() : slot.row;
  if (row == kNone) return kNoFreeRow;

  if (opens && asked.hit > 0 && facts_.events().on()) [[unlikely]] tell_reused(slot);
  facts_.begin();
  if (opens) {
    open(slot, row, asked);
    slots_.free_rows().take(row);
  } else {
    for (u32 g = 0; g < rows_.num_groups(); ++g) {
      exchange_.control(kGroupHits, g) = static_cast<std::int32_t>(rows_.part(index, g).length);
    }
  }
  std::vector<Growth> growths(rows_.num_groups());
  for (u32 g = 0; g < rows_.num_groups(); ++g) growths[g] = rows_.growth(rows_.part(index, g), g, target, main);
  for (u32 g = 0; g < rows_.num_groups(); ++g) rows_.log_moves(slot, g, growths[g]);
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    if (growths[g].taken) facts_.log().extend(rows_.row_of(slot, g), growths[g].taken);
  }
  facts_.commit();
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    GroupPart& part = rows_.part(index, g);
    rows_.grow(part, g, growths[g]);
    const u32 before = static_cast<u32>(exchange_.control(kGroupHits, g));
    rows_.note_taken(slot, g, opens ? part.length - before : growths[g].taken);
    exchange_.control(kGroupBlocks, g) = static_cast<std::int32_t>(part.length);
  }
  rows_.refresh(slot);
  if (asked.publishes) {
    rows_.publish(slot, std::min(main, slot.num_tokens));
    facts_.commit();
    rows_.refresh(slot);
  }
  facts_.publish_counts();
  return static_cast<std::int32_t>(row);
}

}  // namespace blockstep
