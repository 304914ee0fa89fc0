#include "pending.h"

#include <algorithm>
#include <string>

namespace blockstep {

void Pending::drain() {
  condition_.require_sound();
  if (condition_.deciding()) return;
  if (exchange_.control(kNumSampled) != 0) drain_sampled();
  const std::int32_t count = exchange_.control(kNumPending);
  if (count == 0) return;
  if (count < 0 || static_cast<u32>(count) > exchange_.pending_capacity()) {
    condition_.poison("the exchange buffer says " + std::to_string(count) + " pending operations");
  }
  drain(static_cast<u32>(count));
  facts_.publish_counts();
}

/// Appends each sampled token to the slot of its entry. If memory runs out, the earlier tokens have
/// been appended and the others still wait.
void Pending::drain_sampled() {
  const auto count = static_cast<u32>(exchange_.control(kNumSampled));
  const auto index = static_cast<u32>(exchange_.control(kSampledFrame));
  if (count > config_.max_entries || index >= config_.num_frames) {
    condition_.poison("the exchange buffer says " + std::to_string(count) + " sampled tokens of frame " +
                      std::to_string(index));
  }
  const std::int32_t* const tokens = exchange_.sampled(config_.num_frames);
  const std::int32_t* const slots = exchange_.frame(index).slots;
  RequestTable& table = table_;
  for (; num_appended_ < count; ++num_appended_) {
    const auto slot = static_cast<u32>(slots[num_appended_]);
    if (table.try_append(slot, tokens[num_appended_])) [[likely]] continue;
    if (tokens[num_appended_] == kNoToken) continue;
    apply(static_cast<u32>(PendingOp::kAppend) << 24 | slot, tokens[num_appended_]);
  }
  exchange_.control(kNumSampled) = 0;
  num_appended_ = 0;
}

void Pending::compute_last(u32 frame_index, u32 from, u32 to) {
  const auto count = static_cast<u32>(exchange_.control(kNumSteady));
  const std::int32_t ahead = exchange_.control(kNumAhead) - 1;
  exchange_.control(kNumSteady) = 0;
  if (from != 0 || count > to) throw Error{kBadArg, "numSteady must count entries of run(), got " + std::to_string(count)};
  const std::int32_t* const slots = exchange_.frame(frame_index).slots;
  std::int32_t* const computed = exchange_.computed(frame_index);
  for (u32 e = 0; e < count; ++e) {
    const auto slot = static_cast<u32>(slots[e]);
    if (slot >= table_.size()) continue;  // check_frame() refuses it
    computed[e] = static_cast<std::int32_t>(table_[slot].num_tokens) + ahead;
  }
}

/// Applies the first `count` operations. Each operation is written to the log and to its slot
/// together. If memory runs out, the earlier operations are applied and the others stay pending.
void Pending::drain(u32 count) {
  std::int32_t* pairs = exchange_.pending();
  // A copy, because the compiler would load it again after every store into the table.
  RequestTable& table = table_;
  facts_.begin();
  u32 done = 0;
  try {
    for (; done < count; ++done) {
      const auto word = static_cast<u32>(pairs[2 * done]);
      const std::int32_t argument = pairs[2 * done + 1];
      const bool appends = word >> 24 == static_cast<u32>(PendingOp::kAppend);
      if (appends && table.try_append(word & kSlotBits, argument)) [[likely]] continue;
      apply(word, argument);
    }
  } catch (const std::bad_alloc&) {
    std::copy(pairs + 2 * done, pairs + 2 * count, pairs);
    exchange_.control(kNumPending) = static_cast<std::int32_t>(count - done);
    facts_.commit();
    facts_.publish_counts();
    throw;
  }
  exchange_.control(kNumPending) = 0;
  facts_.commit();
}

void Pending::publish(Slot& slot, u32 tokens) {
  if (groups_) {
    groups_->rows.publish(slot, tokens);
    groups_->rows.refresh(slot);
    return;
  }
  const u32 to = std::min(tokens / config_.block_size, slot.num_blocks);
  if (to <= slot.num_published) return;
  slots_.log_publications(slot, slot.row, slot.num_blocks, slot.num_published, to);
  slots_.set_row(slot, slot.row, slot.num_blocks, to);
}

void Pending::release(Slot& slot) {
  if (groups_) groups_->rows.release(slot);
  else slots_.release_row(slot);
}

void Pending::forget_match(u32 slot) {
  if (groups_) groups_->admissions.forget_match(slot);
  else admissions_.forget_match(slot);
}

void Pending::apply(u32 word, std::int32_t argument) {
  const u32 index = word & kSlotBits;
  if (!table_.is_open(index)) {
    condition_.poison("pending operation " + std::to_string(word >> 24) + " names slot " + std::to_string(index) +
                      ", which is not open");
  }
  Slot& slot = table_[index];
  switch (static_cast<PendingOp>(word >> 24)) {
    case PendingOp::kAppend:
      if (static_cast<u32>(argument) >= kMaxTokens) break;
      table_.append(slot, argument);
      return;
    case PendingOp::kPublish: {
      const u32 tokens = std::min(static_cast<u32>(std::max(argument, 0)), slot.num_tokens);
      if (tokens >= slot.publish_at) publish(slot, tokens);
      return;
    }
    case PendingOp::kRelease:
      release(slot);
      return;
    case PendingOp::kClose:
      release(slot);
      forget_match(index);
      table_.close(index);
      return;
    case PendingOp::kEvict:
      if (argument < 0) break;
      if (groups_) groups_->rows.evict(slot, static_cast<u32>(argument));
      else slots_.evict_row(slot, static_cast<u32>(argument));
      return;
    case PendingOp::kTruncate:
      if (argument < 0) break;
      forget_match(index);
      table_.truncate(slot, static_cast<u32>(argument));
      return;
    case PendingOp::kRewind:
      if (argument < 0) break;
      forget_match(index);
      table_.rewind(slot, static_cast<u32>(argument));
      return;
  }
  condition_.poison("pending operation " + std::to_string(word >> 24) + " with argument " + std::to_string(argument) +
                    " makes no sense");
}

}  // namespace blockstep
