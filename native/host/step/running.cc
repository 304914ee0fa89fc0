// run() here and Admissions::admit() first compute the blocks they need from counts alone. They
// then write one log, apply it, and update the slots. The log takes all blocks before it publishes
// any. The result is the same as entry by entry, because publications do not change the queue.
#include "running.h"

#include <algorithm>
#include <string>

namespace blockstep {

u32 Running::run(const Frame& frame, u32 from, u32 to) {
  const u32 end = plan(frame, from, to, config_.max_model_len, facts_.state().num_free);
  if (!work_.empty()) finish(frame);
  slots_.publish_common_prefix();
  return end - from;
}

void Running::forget() {
  for (const RunningWork& work : work_) table_[work.slot].mark = 0;
  work_.clear();
}

void Running::settle(const RunningWork& work, const Frame& frame) {
  Slot& slot = table_[work.slot];
  slots_.set_row(slot, slot.row, slot.num_blocks + work.take, work.publish_to);
  frame.num_blocks[work.entry] = static_cast<std::int32_t>(slot.num_blocks);
  frame.new_blocks[work.entry] = static_cast<std::int32_t>(work.take);
}

u32 Running::plan(const Frame& frame, u32 from, u32 to, u32 limit, u64 left) {
  forget();  // left over from a plan that threw
  // These are copies, because the compiler would load them again after every store into the frame.
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

/// Plans one entry that outgrew its blocks or filled a block. Returns false if it needs more than
/// `left` blocks.
bool Running::plan_entry(u32 entry, u32 index, u32 target, u32 full_tokens, u64& left) {
  Slot& slot = slots_.open_slot(index);
  if (slot.row == kNone) throw Error{kNoRow, "slot " + std::to_string(index) + " holds no row"};
  if (slot.mark) throw Error{kBadArg, "slot " + std::to_string(index) + " must be in the frame once, is in it twice"};
  const u32 total = std::max(config_.blocks_for(target), slot.num_blocks);
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

/// Hashes the blocks that a decode step fills side by side: one block of each of several requests.
void Running::hash_filled() {
  filled_.clear();
  for (const RunningWork& work : work_) {
    Slot& slot = table_[work.slot];
    if (slot.hashes != nullptr && work.publish_to == slot.num_hashes + 1) filled_.push_back(&slot);
  }
  table_.hash_next({filled_.data(), static_cast<u32>(filled_.size())});
}

/// Writes and applies the log of the work that plan() found.
void Running::finish(const Frame& frame) {
  hash_filled();
  facts_.begin();
  for (const RunningWork& work : work_) {
    if (work.take) facts_.log().extend(table_[work.slot].row, work.take);
  }
  for (const RunningWork& work : work_) {
    Slot& slot = table_[work.slot];
    slots_.log_publications(slot, slot.row, slot.num_blocks, slot.num_published, work.publish_to);
  }
  facts_.commit();
  for (const RunningWork& work : work_) {
    settle(work, frame);
    table_[work.slot].mark = 0;
  }
  work_.clear();
  facts_.publish_counts();
}

}  // namespace blockstep
