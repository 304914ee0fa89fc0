// The two operations that give blocks to requests: run() for a whole step of running requests, admit() for one.
//
// Both first compute what they need from counts alone, then write one log, apply it, and bring the slots up to date.
// That the log takes all blocks before it publishes any makes no difference: publications do not touch the queue.
#include <algorithm>

#include "../core.h"

namespace blockstep {

u32 HostCore::run(u32 frame_index, u32 from, u32 to) {
  require_sound();
  require_host_decides("run");
  check_range(from, to);
  drain();
  const Frame frame = exchange_.frame(frame_index);
  check_frame(frame, from, to);
  const u32 end = plan_run(frame, from, to, config_.max_model_len, state_.num_free);
  if (!work_.empty()) finish_run(frame);
  publish_common_prefix();
  return end - from;
}

void HostCore::publish_common_prefix() {
  const auto head = static_cast<u32>(exchange_.control(kHeadSlot));
  exchange_.control(kCommonPrefix) =
      table_.is_open(head) ? static_cast<std::int32_t>(shared_prefix(table_[head])) : 0;
}

void HostCore::check_range(u32 from, u32 to) {
  if (from <= to) return;
  throw Error{kBadArg, "from must not be above to, got " + std::to_string(from) + " and " + std::to_string(to)};
}

/// Every entry names a slot of the table and computes at least one token, and no count is negative or too large to
/// calculate with.
void HostCore::check_frame(const Frame& frame, u32 from, u32 to) const {
  const u32 slots = table_.size();
  u32 bad = 0;  // its sign bit collects what is wrong with any entry, so that the loop needs no branch
  for (u32 e = from; e < to; ++e) {
    const auto computed = static_cast<u32>(frame.computed[e]);
    const auto scheduled = static_cast<u32>(frame.scheduled[e]);
    const auto slot = static_cast<u32>(frame.slots[e]);
    bad |= computed | (scheduled - 1) | (computed + scheduled) | slot | (slots - 1 - slot);
  }
  if (static_cast<std::int32_t>(bad) >= 0) [[likely]] return;
  for (u32 e = from; e < to; ++e) {
    const std::int64_t computed = frame.computed[e];
    const std::int64_t scheduled = frame.scheduled[e];
    const std::string where = " in entry " + std::to_string(e);
    if (static_cast<u32>(frame.slots[e]) >= slots) {
      throw Error{kBadSlot, "slot " + std::to_string(frame.slots[e]) + where + " is not open"};
    }
    if (computed < 0 || scheduled < 1 || computed + scheduled > kMaxTokens) {
      throw Error{kBadArg, "numComputedTokens must be at least 0 and numScheduledTokens at least 1, got " +
                               std::to_string(computed) + " and " + std::to_string(scheduled) + where};
    }
  }
}

/// Finds the entries that need anything, and returns the first that does not fit into `left` blocks, or `to`. None gets
/// room for more than `limit` tokens. Changes nothing but marks.
u32 HostCore::plan_run(const Frame& frame, u32 from, u32 to, u32 limit, u64 left) {
  for (const Work& work : work_) table_[work.slot].mark = 0;  // left behind by a run that threw
  work_.clear();
  // Copies, or the compiler would load them again after every store into the frame.
  const Frame at = frame;
  const Slot* const slots = table_.slots();
  const u32 lookahead = config_.lookahead;
  for (u32 e = from; e < to; ++e) {
    const Slot& slot = slots[static_cast<u32>(at.slots[e])];
    const u32 after = static_cast<u32>(at.computed[e]) + static_cast<u32>(at.scheduled[e]);
    const u32 target = std::min(after + lookahead, limit);
    const u32 full = std::min(after, slot.num_tokens);
    at.num_blocks[e] = static_cast<std::int32_t>(slot.num_blocks);
    at.new_blocks[e] = 0;
    if (target <= slot.room && full < slot.publish_at) [[likely]] continue;
    if (!plan_entry(e, static_cast<u32>(at.slots[e]), target, full, left)) return e;
  }
  return to;
}

/// One entry that outgrew its blocks or filled one. False: the blocks left do not suffice.
bool HostCore::plan_entry(u32 entry, u32 index, u32 target, u32 full_tokens, u64& left) {
  Slot& slot = open_slot(index);
  if (slot.row == kNone) throw Error{kNoRow, "slot " + std::to_string(index) + " holds no row"};
  if (slot.mark) throw Error{kBadArg, "slot " + std::to_string(index) + " stands in the frame twice"};
  const u32 total = std::max(blocks_for(target), slot.num_blocks);
  const u32 take = total - slot.num_blocks;
  if (take > left) return false;
  u32 publish_to = slot.num_published;
  if (full_tokens >= slot.publish_at) {
    publish_to = std::max(publish_to, std::min(full_tokens / config_.block_size, total));
  }
  if (take == 0 && publish_to == slot.num_published) return true;
  work_.push_back({entry, index, take, publish_to});
  slot.mark = 1;
  left -= take;
  return true;
}

/// Applies what plan_run() found.
void HostCore::finish_run(const Frame& frame) {
  begin_log();
  for (const Work& work : work_) {
    if (work.take) log_.extend(table_[work.slot].row, work.take);
  }
  for (const Work& work : work_) {
    Slot& slot = table_[work.slot];
    log_publications(slot, slot.row, slot.num_blocks, slot.num_published, work.publish_to);
  }
  commit();
  for (const Work& work : work_) {
    Slot& slot = table_[work.slot];
    set_row(slot, slot.row, slot.num_blocks + work.take, work.publish_to);
    slot.mark = 0;
    frame.num_blocks[work.entry] = static_cast<std::int32_t>(slot.num_blocks);
    frame.new_blocks[work.entry] = static_cast<std::int32_t>(work.take);
  }
  work_.clear();
  publish_counts();
}

u32 HostCore::match(u32 index, u32 max_blocks) {
  drain();
  Slot& slot = open_slot(index);
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

/// The first `hit_blocks` cached blocks of the slot: from the last match() if nothing happened since, or looked up
/// again. @throws Error kBadArg if there are fewer by now
Span<const u32> HostCore::hits_for(u32 index, u32 hit_blocks) {
  if (hit_blocks == 0) return {match_.ids.data(), 0};
  const bool fresh = match_.slot == index && match_.version == state_.num_commands && match_.count >= hit_blocks;
  const u32 found = fresh ? match_.count : match(index, hit_blocks);
  if (found < hit_blocks) {
    throw Error{kBadArg, "hitBlocks is " + std::to_string(hit_blocks) + ", but only " + std::to_string(found) +
                             " blocks are cached: match again"};
  }
  return {match_.ids.data(), hit_blocks};
}

std::int32_t HostCore::admit(u32 index, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens) {
  require_sound();
  require_host_decides("admit");
  drain();
  Slot& slot = open_slot(index);
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
  const u32 total = std::max(blocks_for(need_tokens), held);
  const u32 reserve = std::max(blocks_for(reserve_tokens), total);
  if (u64{reserve} - held + hit_free > state_.num_free) return kNotEnoughBlocks;
  const u32 row = opens ? free_rows_.lowest() : slot.row;
  if (row == kNone) return kNoFreeRow;

  const u32 published = opens ? hits.size : slot.num_published;
  const u32 full = config_.caching ? std::min(publish_tokens, slot.num_tokens) / config_.block_size : 0;
  const u32 publish_to = std::max(published, std::min(full, total));
  begin_log();
  if (opens) log_.open_row(row, hits.data, hits.size);
  if (total > held) log_.extend(row, total - held);
  log_publications(slot, row, held, published, publish_to);
  commit();
  if (opens) free_rows_.take(row);
  set_row(slot, row, total, publish_to);
  publish_counts();
  return static_cast<std::int32_t>(row);
}

}  // namespace blockstep
