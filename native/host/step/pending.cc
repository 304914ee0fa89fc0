// What TypeScript left in the exchange buffer since the last call: sampled tokens, publications and releases.
#include <algorithm>

#include "../core.h"

namespace blockstep {

void HostCore::flush() {
  begin_change();
  drain();
}

/// Applies everything that is pending. Called at the start of every operation, so that no caller can see a state that
/// is older than what TypeScript has already said; but while the device decides, it all stays pending until the state
/// has followed.
void HostCore::drain() {
  require_sound();
  if (deciding_) return;
  const std::int32_t count = exchange_.control(kNumPending);
  if (count == 0) return;
  if (count < 0 || static_cast<u32>(count) > exchange_.pending_capacity()) {
    poison("the exchange buffer says " + std::to_string(count) + " pending operations");
  }
  drain_pending(static_cast<u32>(count));
  publish_counts();
}

/// Every operation is written to the log and to the slot together. If memory runs out in between two, those before
/// have happened and the others stay pending.
void HostCore::drain_pending(u32 count) {
  std::int32_t* pairs = exchange_.pending();
  begin_log();
  u32 done = 0;
  try {
    for (; done < count; ++done) {
      const auto word = static_cast<u32>(pairs[2 * done]);
      const std::int32_t argument = pairs[2 * done + 1];
      const bool appends = word >> 24 == static_cast<u32>(PendingOp::kAppend);
      if (appends && table_.try_append(word & kSlotBits, argument)) [[likely]] continue;
      apply_pending(word, argument);
    }
  } catch (const std::bad_alloc&) {
    std::copy(pairs + 2 * done, pairs + 2 * count, pairs);
    exchange_.control(kNumPending) = static_cast<std::int32_t>(count - done);
    commit();
    publish_counts();
    throw;
  }
  exchange_.control(kNumPending) = 0;
  commit();
}

void HostCore::apply_pending(u32 word, std::int32_t argument) {
  const u32 index = word & kSlotBits;
  if (!table_.is_open(index)) {
    poison("pending operation " + std::to_string(word >> 24) + " names slot " + std::to_string(index) +
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
      if (tokens < slot.publish_at) return;
      const u32 to = std::min(tokens / config_.block_size, slot.num_blocks);
      if (to <= slot.num_published) return;
      log_publications(slot, slot.row, slot.num_blocks, slot.num_published, to);
      set_row(slot, slot.row, slot.num_blocks, to);
      return;
    }
    case PendingOp::kRelease:
      release_row(slot);
      return;
    case PendingOp::kClose:
      release_row(slot);
      if (match_.slot == index) match_.slot = kNone;
      table_.close(index);
      return;
    case PendingOp::kEvict:
      if (argument < 0) break;
      evict_row(slot, static_cast<u32>(argument));
      return;
    case PendingOp::kTruncate:
      if (argument < 0) break;
      if (match_.slot == index) match_.slot = kNone;
      table_.truncate(slot, static_cast<u32>(argument));
      return;
    case PendingOp::kRewind:
      if (argument < 0) break;
      if (match_.slot == index) match_.slot = kNone;
      table_.rewind(slot, static_cast<u32>(argument));
      return;
  }
  poison("pending operation " + std::to_string(word >> 24) + " with argument " + std::to_string(argument) +
         " makes no sense");
}

void HostCore::release_row(Slot& slot) {
  if (slot.row == kNone) return;
  log_.list(Op::kRelease, slot.row);
  free_rows_.put(slot.row);
  set_row(slot, kNone, 0, 0);
}

/// The row's blocks from `from` on lose their key. They stay in the row, and can be published again.
void HostCore::evict_row(Slot& slot, u32 from) {
  if (from >= slot.num_blocks) return;
  const u32* ids = blocks_of(state_, slot.row);
  for (u32 i = from; i < slot.num_blocks; ++i) log_.list(Op::kEvict, ids[i]);
  set_row(slot, slot.row, slot.num_blocks, std::min(slot.num_published, from));
  // Which blocks carry a key is read from the state when they are published again, so the state must know by then.
  commit();
}

}  // namespace blockstep
