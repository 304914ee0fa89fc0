// vLLM drops, tests, takes and publishes request by request. Here the log drops for all requests,
// then takes for all, then publishes. Ids and queue are the same: blocks are taken from the head of
// the queue and dropped blocks are appended to its tail. The test of each request counts the drops
// of all requests up to it.
#include "group_running.h"

#include <algorithm>
#include <string>

namespace blockstep {

u32 GroupRunning::run(const Frame& frame, u32 from, u32 to) {
  // Left over from a run that threw.
  for (const Work& work : work_) slots_.table()[work.slot].mark = 0;
  work_.clear();
  dropped_.clear();
  // These are copies, because the compiler would load them again after every store into the frame.
  const Frame at = frame;
  const Slot* const slots = slots_.table().slots();
  const u32 groups = rows_.num_groups();
  const u32 lookahead = config_.lookahead;
  const u32 limit = config_.max_model_len;
  u64 left = state_.num_free;
  u32 e = from;
  for (; e < to; ++e) {
    const u32 index = static_cast<u32>(at.slots[e]);
    const Slot& slot = slots[index];
    const u32 computed = static_cast<u32>(at.computed[e]);
    const u32 main = computed + static_cast<u32>(at.scheduled[e]);
    if (slot.row != kNone) {
      const GroupPart* const parts = &rows_.part(index, 0);
      for (u32 g = 0; g < groups; ++g) {
        at.num_blocks[g * at.group_stride + e] = static_cast<std::int32_t>(parts[g].length);
        at.new_blocks[g * at.group_stride + e] = 0;
      }
    }
    const u32 target = std::min(main + lookahead, limit);
    if (target <= slot.room && std::min(main, slot.num_tokens) < slot.publish_at) [[likely]] continue;
    if (!plan(e, index, computed - std::min(computed, static_cast<u32>(at.in_flight[e])), main, left)) break;
  }
  carry_out(frame);
  rows_.publish_common_prefix();
  return e - from;
}

/// Plans one entry. Returns false if it needs more blocks than are left. Its drops stay planned.
bool GroupRunning::plan(u32 entry, u32 index, u32 processed, u32 main, u64& left) {
  Slot& slot = slots_.open_slot(index);
  if (slot.row == kNone) throw Error{kNoRow, "slot " + std::to_string(index) + " holds no row"};
  if (slot.mark) throw Error{kBadArg, "slot " + std::to_string(index) + " must be in the frame once, is in it twice"};
  slot.mark = 1;
  const u32 target = std::min(main + config_.lookahead, config_.max_model_len);
  const std::size_t first = work_.size();
  u64 taken = 0;
  for (u32 g = 0; g < rows_.num_groups(); ++g) {
    Work work{index, entry, g, {}, kNone, {}};
    work.drop = rows_.to_drop(slot, g, processed, work.extra);
    const u32* list = rows_.list_of(slot, g);
    for (u32 i = 0; i < work.drop.count; ++i) {
      const u32 id = list[work.drop.from + i];
      if (id != kNullBlock) left += dropped_.note(state_, id);
    }
    if (work.extra != kNone) left += dropped_.note(state_, list[work.extra]);
    work.growth = rows_.growth(rows_.part(index, g), g, target, main);
    taken += work.growth.taken;
    work_.push_back(work);
  }
  if (taken <= left) {
    left -= taken;
    return true;
  }
  for (std::size_t i = first; i < work_.size(); ++i) {
    work_[i].growth = {};
    work_[i].entry = kNone;
  }
  return false;
}

/// The known tokens of the request that are computed after the work of its entry.
u32 GroupRunning::settled_after(const Work& work, const Frame& frame) const {
  const u32 main = static_cast<u32>(frame.computed[work.entry]) + static_cast<u32>(frame.scheduled[work.entry]);
  return std::min(main, slots_.table()[work.slot].num_tokens);
}

/// Hashes the blocks that will be published. One block of each of several requests is hashed side
/// by side with those of the others.
void GroupRunning::hash_filled(const Frame& frame) {
  RequestTable& table = slots_.table();
  filled_.clear();
  for (const Work& work : work_) {
    if (work.group != 0 || work.entry == kNone) continue;
    Slot& slot = table[work.slot];
    const u32 tokens = settled_after(work, frame);
    if (tokens < slot.publish_at) continue;
    const u32 blocks = tokens / config_.block_size;
    if (slot.hashes != nullptr && blocks == slot.num_hashes + 1) filled_.push_back(&slot);
    else table.extend_hashes(slot, blocks);
  }
  table.hash_next({filled_.data(), static_cast<u32>(filled_.size())});
}

/// Logs the drops of the works [from, to), and then the blocks that they take.
void GroupRunning::log_work(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const Work& work = work_[i];
    const Slot& slot = slots_.table()[work.slot];
    rows_.note_dropped(slot, work.group, work.drop, work.extra);
    rows_.log_drop(slot, work.group, work.drop, work.extra);
  }
  for (std::size_t i = from; i < to; ++i) rows_.log_moves(slots_.table()[work_[i].slot], work_[i].group, work_[i].growth);
  for (std::size_t i = from; i < to; ++i) {
    const Work& work = work_[i];
    const Slot& slot = slots_.table()[work.slot];
    if (work.growth.taken) facts_.log().extend(rows_.row_of(slot, work.group), work.growth.taken);
  }
}

/// Writes and applies the log of the work that plan() found.
void GroupRunning::carry_out(const Frame& frame) {
  if (work_.empty()) return;
  hash_filled(frame);
  facts_.begin();
  // Blocks dropped at the tail may all be dropped before any block is taken. Blocks put before the
  // head are taken by the next entry.
  const std::size_t at_once = state_.config.unhashed_first ? rows_.num_groups() : work_.size();
  for (std::size_t i = 0; i < work_.size(); i += at_once) log_work(i, i + at_once);
  facts_.commit();
  for (const Work& work : work_) {
    const Slot& slot = slots_.table()[work.slot];
    GroupPart& part = rows_.part(work.slot, work.group);
    const u32 before = part.length;
    rows_.grow(part, work.group, work.growth);
    rows_.note_taken(slot, work.group, work.growth.taken);
    if (work.entry == kNone) continue;
    frame.num_blocks[work.group * frame.group_stride + work.entry] = static_cast<std::int32_t>(part.length);
    frame.new_blocks[work.group * frame.group_stride + work.entry] = static_cast<std::int32_t>(part.length - before);
  }
  for (const Work& work : work_) {
    if (work.group != 0) continue;
    Slot& slot = slots_.table()[work.slot];
    slot.mark = 0;
    if (work.entry != kNone) rows_.publish(slot, settled_after(work, frame));
    rows_.refresh(slot);
  }
  facts_.commit();
  work_.clear();
  dropped_.clear();
  facts_.publish_counts();
}

}  // namespace blockstep
