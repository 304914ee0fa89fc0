#include "group_rows.h"

#include <algorithm>
#include <string>

namespace blockstep {
namespace {

u32 divide_up(u64 a, u32 b) { return static_cast<u32>((a + b - 1) / b); }

}  // namespace

GroupRows::GroupRows(const HostConfig& config, const Exchange& exchange, FactLog& facts, Slots& slots)
    : config_(config), exchange_(exchange), facts_(facts), state_(facts.state()), slots_(slots),
      num_groups_(static_cast<u32>(config.groups.size())), retention_(config), zeroed_(config.groups.size()), num_dropped_(config.groups.size()) {
  counted_.shared.resize(num_groups_);
}

u32 GroupRows::skipped_tokens(u32 g, u32 computed) const {
  const GroupConfig& group = config_.groups[g];
  switch (group.type) {
    case GroupType::kFull: return 0;
    case GroupType::kSliding: return computed < group.window ? 0 : computed - group.window + 1;
    case GroupType::kChunked: return computed / group.chunk * group.chunk;
    default: return computed == 0 ? 0 : computed - 1;
  }
}

u32 GroupRows::places_for(u32 g, u32 tokens) const {
  const GroupConfig& group = config_.groups[g];
  return divide_up(tokens, group.block_size) + group.spare_blocks;
}

void GroupRows::open(u32 slot) {
  const std::size_t end = (std::size_t{slot} + 1) * num_groups_;
  if (parts_.size() < end) parts_.resize(end);
  std::fill(parts_.begin() + static_cast<std::ptrdiff_t>(end - num_groups_), parts_.begin() + static_cast<std::ptrdiff_t>(end), GroupPart{});
}

Places GroupRows::to_drop(const Slot& slot, u32 g, u32 processed, u32& extra) const {
  const GroupConfig& group = config_.groups[g];
  const GroupPart& part = parts_[std::size_t{index_of(slot)} * num_groups_ + g];
  extra = kNone;
  // Drafts may count as computed. If they are rejected, the next token needs the same number of
  // earlier tokens.
  const u32 known = processed - std::min(processed, group.unsettled);
  const u32 end = std::min(skipped(g, known), part.length);
  const bool whole = group.type != GroupType::kMambaAlign || (config_.group_fixes & kDropStates);
  if (whole) return {part.first, end > part.first ? end - part.first : 0};
  const u32* list = list_of(slot, g);
  u32 from = end;
  while (from > 0 && list[from - 1] != kNullBlock) from -= 1;
  const bool outlived = part.last != kNone && part.last + 1 < divide_up(known, group.block_size);
  if (outlived && list[part.last] != kNullBlock && !(part.last >= from && part.last < end)) extra = part.last;
  return {from, end - from};
}

void GroupRows::log_drop(const Slot& slot, u32 g, Places places, u32 extra) {
  GroupPart& part = this->part(index_of(slot), g);
  const u32* list = list_of(slot, g) + places.from;
  num_dropped_[g] += places.count - std::count(list, list + places.count, kNullBlock) + (extra != kNone);
  if (places.count) {
    facts_.log().drop(row_of(slot, g), places.from, places.count);
    if (config_.groups[g].type != GroupType::kMambaAlign) part.first = places.from + places.count;
  }
  if (extra != kNone) facts_.log().drop(row_of(slot, g), extra, 1);
}

void GroupRows::note_dropped(const Slot& slot, u32 g, Places places, u32 extra) {
  const u32* list = list_of(slot, g);
  const auto note = [&](u32 place) {
    const u32 id = list[place];
    dropped_.insert(dropped_.end(), {index_of(slot), id, g, place, state_.blocks[id].generation});
  };
  for (u32 i = places.from + places.count; i > places.from; --i)
    if (list[i - 1] != kNullBlock) note(i - 1);
  if (extra != kNone) note(extra);
}

std::vector<u32> GroupRows::drain_dropped() {
  std::vector<u32> taken;
  taken.swap(dropped_);
  return taken;
}

Growth GroupRows::growth(const GroupPart& part, u32 g, u32 slots, u32 main) const {
  const GroupConfig& group = config_.groups[g];
  Growth growth;
  if (group.type != GroupType::kMambaAlign) {
    const u32 places = places_for(g, slots);
    growth.taken = places > part.length ? places - part.length : 0;
    return growth;
  }
  const u32 places = places_for(g, main);
  // vLLM fails an assertion if the number of drafts shrinks.
  if (places <= part.length) return growth;
  const u32 running = places - group.spare_blocks - 1;  // the place of the running state
  if (running > part.length) growth.nulls = running - part.length;
  const u32 end = part.length + growth.nulls;
  if (part.grown) {
    growth.moved_from = part.length - group.spare_blocks;
    const u32 until = std::min(part.length, running);
    growth.moved = until > growth.moved_from ? until - growth.moved_from : 0;
  }
  growth.taken = places - end - growth.moved;
  return growth;
}

void GroupRows::log_moves(const Slot& slot, u32 g, const Growth& growth) {
  const u32 nulls = growth.nulls + growth.moved;
  if (nulls == 0) return;
  const u32 row = row_of(slot, g);
  const u32 end = part(index_of(slot), g).length + growth.nulls;
  facts_.log().pad(row, nulls);
  for (u32 i = 0; i < growth.moved; ++i) facts_.log().move(row, growth.moved_from + i, end + i);
}

void GroupRows::grow(GroupPart& part, u32 g, const Growth& growth) {
  const GroupConfig& group = config_.groups[g];
  const u32 added = growth.nulls + growth.moved + growth.taken;
  if (group.type == GroupType::kMambaAlign && added != 0) {
    if (part.grown) part.last = part.length - 1 - group.spare_blocks;
    else if (part.length > 0) part.last = part.length - 1;
    part.grown = true;
  }
  part.length += added;
}

void GroupRows::publish(Slot& slot, u32 tokens) {
  if (!config_.caching || slot.row == kNone || tokens < slot.publish_at) return;
  const u32 index = index_of(slot);
  slots_.table().extend_hashes(slot, tokens / config_.block_size);
  const LikelyEnds ends = ends_of(index);
  for (u32 g = 0; g < num_groups_; ++g) {
    GroupPart& part = this->part(index, g);
    const u32 size = config_.groups[g].block_size;
    const u32 publishable = retention_.publishable(g, tokens);
    const u32 full = std::min(publishable / size, part.length);
    const u32 hashes = size / config_.block_size;
    const u32* list = list_of(slot, g);
    for (u32 i = part.settled; i < full; ++i) {
      if (list[i] == kNullBlock || !retention_.publishes(g, i, ends)) continue;
      const Key& key = slot.hashes[(i + 1) * hashes];
      if (part.tail != 0 && part.tail / size == i) {
        facts_.log().list(Op::kEvict, list[i]);  // the key of its first part
        part.tail = 0;
      } else if (!facts_.needs_publication(list[i])) {
        continue;
      }
      if (facts_.events().on()) [[unlikely]] {
        const Key* parent = i == 0 ? nullptr : &slot.hashes[i * hashes];
        const std::size_t first = std::size_t{i} * size;
        facts_.events().announce({slots_.table().handle(slot), g, i, parent, &key, slot.tokens + first});
      }
      facts_.log().publish(row_of(slot, g), i, key);
      if (config_.groups[g].mamba()) noted_.push_back({key, g});
    }
    part.settled = std::max(part.settled, full);
    publish_tail(slot, g, part, publishable);
  }
}

/// Publishes the block in which the prompt ends, under the hash of its last hashed tokens. This is
/// not an event, because lookups cannot find the block.
void GroupRows::publish_tail(const Slot& slot, u32 g, GroupPart& part, u32 publishable) {
  const u32 tail = retention_.tail(g, ends_of(index_of(slot)));
  if (tail == 0 || tail == part.tail || tail > publishable) return;
  const u32 place = tail / config_.groups[g].block_size;
  if (place < part.settled || place >= part.length) return;
  const u32 id = list_of(slot, g)[place];
  if (part.tail != 0) facts_.log().list(Op::kEvict, id);  // a session's prompt grew in this block
  else if (!facts_.needs_publication(id)) return;
  if (facts_.events().on()) [[unlikely]] facts_.events().announce_silent();
  facts_.log().publish(row_of(slot, g), place, slot.hashes[tail / config_.block_size]);
  part.tail = tail;
}

/// The number of computed tokens at which the group next publishes a block.
u64 GroupRows::next_publication(u32 g, const GroupPart& part, const LikelyEnds& ends) const {
  const u64 size = config_.groups[g].block_size;
  const u64 full = retention_.publishes_at(g, (u64{part.settled} + 1) * size);
  const u32 tail = retention_.tail(g, ends);
  const bool pending = tail != part.tail && tail / size >= part.settled && tail != 0;
  return pending ? std::min(full, retention_.publishes_at(g, tail)) : full;
}

void GroupRows::refresh(Slot& slot) {
  if (slot.row == kNone) {
    slot.room = 0;
    slot.publish_at = kNone;
    slot.num_blocks = 0;
    return;
  }
  const u32 index = index_of(slot);
  u64 room = kNone;        // in tokens that the row must have slots for, lookahead included
  u64 computed = kNone;    // computed tokens at which the first block is dropped
  u64 publish_at = kNone;
  for (u32 g = 0; g < num_groups_; ++g) {
    const GroupConfig& group = config_.groups[g];
    GroupPart& part = this->part(index, g);
    const u64 size = group.block_size;
    if (group.type == GroupType::kMambaAlign) {
      const u32* list = list_of(slot, g);
      while (part.first < part.length && list[part.first] == kNullBlock) part.first += 1;
    }
    room = std::min(room, (part.length > group.spare_blocks ? part.length - group.spare_blocks : 0) * size);
    const u64 next = (u64{part.first} + 1) * size;  // this many leading tokens are no longer needed
    if (group.type == GroupType::kSliding) computed = std::min(computed, next + group.window - 1 + group.unsettled);
    else if (group.type == GroupType::kChunked) computed = std::min(computed, (next + group.chunk - 1) / group.chunk * group.chunk + group.unsettled);
    else if (group.mamba()) computed = std::min(computed, next + 1 + group.unsettled);
    publish_at = std::min(publish_at, next_publication(g, part, ends_of(index)));
  }
  // A step that finds `computed` tokens schedules at least one more, so it needs more slots than
  // `computed`.
  const u64 drops = computed + config_.lookahead < config_.max_model_len ? computed + config_.lookahead : computed;
  slot.room = static_cast<u32>(std::min({room, drops, u64{kNone}}));
  slot.publish_at = config_.caching ? static_cast<u32>(std::min(publish_at, u64{kNone})) : kNone;
  slot.num_blocks = part(index, 0).length;
}

void GroupRows::release(Slot& slot) {
  if (slot.row == kNone) return;
  for (u32 g = 0; g < num_groups_; ++g) facts_.log().list(Op::kRelease, row_of(slot, g));
  slots_.free_rows().put(slot.row);
  slot.row = kNone;
  refresh(slot);
}

void GroupRows::evict(Slot& slot, u32 tokens) {
  if (slot.row == kNone) return;
  for (u32 g = 0; g < num_groups_; ++g) {
    GroupPart& part = this->part(index_of(slot), g);
    const u32* list = list_of(slot, g);
    const u32 from = tokens / config_.groups[g].block_size;
    for (u32 i = from; i < part.length; ++i) {
      if (list[i] != kNullBlock) facts_.log().list(Op::kEvict, list[i]);
    }
    part.settled = std::min(part.settled, from);
    if (part.tail / config_.groups[g].block_size >= from) part.tail = 0;
  }
  facts_.commit();
  refresh(slot);
}

bool GroupRows::is_noted(u32 g, const Key& key) const {
  return std::any_of(noted_.begin(), noted_.end(), [&](const Noted& noted) { return noted.group == g && noted.key == key; });
}

u32 GroupRows::shared_prefix(const Slot& slot, u32 g, u32 known) const {
  if (!config_.caching || slot.row == kNone || !config_.groups[g].full()) return 0;
  const u32* list = list_of(slot, g);
  const u32 holders = state_.rows_in_use / num_groups_;
  const u32 length = parts_[std::size_t{index_of(slot)} * num_groups_ + g].length;
  u32 shared = known;
  while (shared < length && list[shared] != kNullBlock && state_.blocks[list[shared]].ref == holders) shared += 1;
  return shared;
}

void GroupRows::publish_common_prefix() {
  const auto head = static_cast<u32>(exchange_.control(kHeadSlot));
  const bool open = slots_.table().is_open(head);
  const bool same = counted_.head == head && counted_.ref_changes == facts_.ref_changes();
  if (!same) std::fill(counted_.shared.begin(), counted_.shared.end(), 0);
  counted_.ref_changes = facts_.ref_changes();
  counted_.head = head;
  for (u32 g = 0; g < num_groups_; ++g) {
    const u32 shared = open ? shared_prefix(slots_.table()[head], g, counted_.shared[g]) : 0;
    counted_.shared[g] = shared;
    exchange_.control(kGroupCommonPrefix, g) = static_cast<std::int32_t>(shared);
    if (g == 0) exchange_.control(kCommonPrefix) = static_cast<std::int32_t>(shared);
  }
}

void GroupRows::note_taken(const Slot& slot, u32 g, u32 count) {
  if (!config_.groups[g].zeroed || count == 0) return;
  const u32* end = list_of(slot, g) + state_.rows[row_of(slot, g)].num_blocks;
  zeroed_[g].insert(zeroed_[g].end(), end - count, end);
}

std::vector<u32> GroupRows::drain_zeroed() {
  std::vector<u32> all;
  for (std::vector<u32>& ids : zeroed_) {
    all.insert(all.end(), ids.begin(), ids.end());
    ids.clear();
  }
  return all;
}

const char* GroupRows::verify() {
  const RequestTable& table = slots_.table();
  for (u32 index = 0; index < table.size(); ++index) {
    const Slot& slot = table[index];
    if (!table.is_open(index) || slot.row == kNone) continue;
    for (u32 g = 0; g < num_groups_; ++g) {
      const GroupPart& part = this->part(index, g);
      const Row& row = state_.rows[row_of(slot, g)];
      const u32* list = list_of(slot, g);
      if (!row.in_use || row.num_blocks != part.length) return "groups: a part and its row differ in length";
      if (part.settled > part.length || part.first > part.length) return "groups: a count of a part is beyond its row";
      for (u32 i = 0; i < part.length; ++i) {
        const bool null = list[i] == kNullBlock;
        if (i < part.first && !null) return "groups: a place that was let go holds a block";
        const bool sparse = config_.groups[g].type == GroupType::kMambaAlign;
        if (i >= part.first && null && !sparse) return "groups: a place that is needed holds nothing";
      }
    }
  }
  return nullptr;
}

}  // namespace blockstep
