#include "group_admissions.h"

#include <algorithm>
#include <string>

namespace blockstep {

u32 GroupAdmissions::match(u32 index, u32 most) {
  Slot& slot = slots_.open_slot(index);
  match_.slot = kNone;
  const u32 hit = search_.find(slot, std::min(most, slot.num_tokens));
  rows_.note_junction(index, search_.longest() > hit ? search_.longest() : 0);
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

/// Whether search_ has hits of the slot. Looks them up again if necessary. (Without kCutAllFull a
/// group may have hits even if the common hit is 0.) @throws Error kBadArg if the hit has changed
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

/// Whether the last block of the hit is a state that the current step computes.
bool GroupAdmissions::is_unready(u32 index, u32 g) const {
  const std::vector<u32>& hits = search_.hits(g);
  if (!rows_.group(g).mamba() || hits.empty()) return false;
  const Slot& slot = slots_.table()[index];
  const std::size_t hashes = rows_.group(g).block_size / config_.block_size;
  return rows_.is_noted(g, slot.hashes[hits.size() * hashes]);
}

GroupAdmissions::Reach GroupAdmissions::reach(const GroupAdmission& asked) const {
  const u32 limit = config_.max_model_len;
  const u32 computed = std::min(asked.computed + asked.hit + asked.external, limit);
  const u32 main = computed + asked.scheduled;
  return {computed, main, std::min(main + asked.lookahead, limit), std::min(asked.reserve, limit)};
}

/// Blocks that one group takes from the queue, for the step or for the whole request (vLLM
/// get_num_blocks_to_allocate).
u64 GroupAdmissions::need(u32 index, u32 g, const Reach& reach, bool whole, bool has_hits) const {
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
    const u32 places = rows_.places_for(g, whole ? reach.reserve : reach.main);
    u64 more = places > num_hits + length ? places - num_hits - length : 0;
    if (more > 0) more = opened && rows_.part(index, g).grown ? 1 : 1 + u64{group.spare_blocks};
    return more + unheld(0);
  }
  u32 places = rows_.places_for(g, whole ? reach.reserve : reach.slots);
  if (whole && group.most_blocks != 0) places = std::min(places, group.most_blocks);
  if (opened) return places > length ? places - length : 0;
  const std::size_t skipped = rows_.skipped(g, reach.computed);
  const std::size_t given = std::max(skipped, num_hits);
  return (places > given ? places - given : 0) + unheld(skipped);
}

/// Blocks that all groups take. If `by_group` is not null, it gets the number for each group.
u64 GroupAdmissions::need_of_all(u32 index, const Reach& reach, bool whole, bool has_hits, NeededBlocks* by_group) const {
  if (whole && reach.reserve == 0) return 0;
  u64 blocks = 0;
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    const u64 of_group = need(index, g, reach, whole, has_hits);
    if (by_group) (*by_group)[g] = of_group;
    blocks += of_group;
  }
  return blocks;
}

/// Blocks of a load that need() does not count, because vLLM does not. A loaded state has its own
/// block, and the step takes another block behind it. If only that block is missing, vLLM crashes.
u64 GroupAdmissions::uncounted(const Reach& reach, bool has_hits) const {
  u64 blocks = 0;
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    const GroupConfig& group = rows_.group(g);
    if (group.type != GroupType::kMambaAlign) continue;
    const u32 places = rows_.places_for(g, reach.main);
    const u64 hits = has_hits ? search_.hits(g).size() : 0;
    const u64 given = std::max<u64>(rows_.skipped(g, reach.computed), hits);
    const u64 loaded = std::max<u64>((reach.computed + u64{group.block_size} - 1) / group.block_size, given);
    const u64 grown = places > loaded ? std::min<u64>(places - loaded, 1 + u64{group.spare_blocks}) : 0;
    const u64 counted = places > hits ? 1 + u64{group.spare_blocks} : 0;
    blocks += loaded - given + grown - std::min(loaded - given + grown, counted);
  }
  return blocks;
}

u64 GroupAdmissions::needed(u32 index, const GroupAdmission& asked, NeededBlocks* by_group) {
  const bool hits = slots_.open_slot(index).row == kNone && has_hits(index, asked.hit);
  for (u32 g = 0; hits && g < rows_.num_groups(); ++g) {
    if (is_unready(index, g)) return kUnready;
  }
  const Reach to = reach(asked);
  NeededBlocks of_reserve{};
  NeededBlocks of_take{};
  const u64 reserved = need_of_all(index, to, true, hits, &of_reserve);
  const u64 now = need_of_all(index, to, false, hits, &of_take);
  const u64 taken = now + asked.reserved_blocks;
  if (by_group) *by_group = reserved > taken ? of_reserve : of_take;
  const u64 counted = std::max(reserved, taken) + asked.spare_blocks;
  if (asked.external == 0 || slots_.table()[index].row != kNone) return counted;
  return std::max(counted, now + uncounted(to, hits));
}

/// Opens the rows of a request: first empty places, then its hits, then the blocks to load.
void GroupAdmissions::open(Slot& slot, u32 row, const GroupAdmission& asked) {
  const u32 index = rows_.index_of(slot);
  const u32 total = asked.hit + asked.external;
  const bool hits = has_hits(index, asked.hit);
  const bool settles = hits || asked.external > 0;
  const bool by_group = !(config_.group_fixes & kHoldAllHits);
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
    if (by_group && asked.external > 0) take_loaded(slot, g, total);
  }
  if (asked.external == 0) return;
  for (u32 g = 0; !by_group && g < rows_.num_groups(); ++g) take_loaded(slot, g, total);
  facts_.log().cut();
}

/// Takes the blocks to load into: those behind the hits, for the first `total` tokens.
void GroupAdmissions::take_loaded(const Slot& slot, u32 g, u32 total) {
  GroupPart& part = rows_.part(rows_.index_of(slot), g);
  const u32 size = rows_.group(g).block_size;
  const u32 places = (total + size - 1) / size;
  // No tokens are loaded if no later token needs them.
  const bool whole = rows_.skipped(g, total) > 0 || (config_.group_fixes & kLoadNeeded);
  const bool needless = whole && rows_.skipped_tokens(g, total) == total;
  if (needless || places <= part.length) return;
  facts_.log().extend(rows_.row_of(slot, g), places - part.length);
  part.length = places;
}

/// Reports the blocks that the request found, run by run.
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

/// For a request with rows: drops the blocks that it no longer needs. Returns whether the blocks
/// that it takes are then free. vLLM tests the whole request first, and drops the unneeded blocks
/// before it tests the taken ones.
bool GroupAdmissions::make_room(Slot& slot, const Reach& reach, const GroupAdmission& asked) {
  const u32 index = rows_.index_of(slot);
  const bool tests_whole = reach.reserve != 0;
  if (tests_whole && need_of_all(index, reach, true, false) + asked.spare_blocks > state_.num_free) return false;
  facts_.begin();
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    u32 extra;
    const Places places = rows_.to_drop(slot, g, reach.computed - std::min(reach.computed, asked.in_flight), extra);
    rows_.note_dropped(slot, g, places, extra);
    rows_.log_drop(slot, g, places, extra);
  }
  facts_.commit();
  rows_.refresh(slot);
  facts_.publish_counts();
  return need_of_all(index, reach, false, false) + asked.spare_blocks + asked.reserved_blocks <= state_.num_free;
}

/// Takes the blocks of the step. kGroupHits has the number of places of each row before the
/// command, or its hits.
void GroupAdmissions::grow(Slot& slot, const Reach& reach, bool opened) {
  const u32 index = rows_.index_of(slot);
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    growths_[g] = rows_.growth(rows_.part(index, g), g, reach.slots, reach.main);
  }
  for (u32 g = 0; g < rows_.num_groups(); ++g) rows_.log_moves(slot, g, growths_[g]);
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    if (growths_[g].taken) facts_.log().extend(rows_.row_of(slot, g), growths_[g].taken);
  }
  facts_.commit();
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    GroupPart& part = rows_.part(index, g);
    rows_.grow(part, g, growths_[g]);
    const u32 before = static_cast<u32>(exchange_.control(kGroupHits, g));
    rows_.note_taken(slot, g, opened ? part.length - before : growths_[g].taken);
    exchange_.control(kGroupBlocks, g) = static_cast<std::int32_t>(part.length);
  }
}

std::int32_t GroupAdmissions::admit(u32 index, const GroupAdmission& asked) {
  Slot& slot = slots_.open_slot(index);
  const bool opens = slot.row == kNone;
  if (!opens && asked.hit != 0) {
    throw Error{kBadArg, "hitTokens must be 0 for slot " + std::to_string(index) + ", which holds rows already"};
  }
  const Reach to = reach(asked);
  if (opens ? needed(index, asked) > state_.num_free : !make_room(slot, to, asked)) return kNotEnoughBlocks;
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
  grow(slot, to, opens);
  rows_.note_prompt(index, asked.prompt);
  rows_.refresh(slot);
  if (asked.publishes) {
    rows_.publish(slot, std::min(to.main, slot.num_tokens));
    facts_.commit();
    rows_.refresh(slot);
  }
  facts_.publish_counts();
  return static_cast<std::int32_t>(row);
}

}  // namespace blockstep
