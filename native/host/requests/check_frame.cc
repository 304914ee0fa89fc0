#include "check_frame.h"

#include <string>

#include "../../base/error.h"

namespace blockstep {

namespace {

void check_tokens(u64 tokens, u32 max_tokens) {
  if (tokens <= max_tokens) return;
  throw Error{kBadArg, "a step must have at most " + std::to_string(max_tokens) + " tokens (maxTokens), got " +
                           std::to_string(tokens)};
}

}  // namespace

void check_range(u32 from, u32 to) {
  if (from <= to) return;
  throw Error{kBadArg, "from must not be above to, got " + std::to_string(from) + " and " + std::to_string(to)};
}

void check_frame(const Frame& frame, u32 from, u32 to, const RequestTable& table) {
  const u32 slots = table.size();
  u32 bad = 0;  // its sign bit is set if any entry is invalid, so that the loop needs no branch
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

void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table) {
  u64 tokens = 0;
  for (u32 e = 0; e < num_entries; ++e) {
    const auto index = static_cast<u32>(frame.slots[e]);
    const Slot& slot = table[index];
    const u32 after = static_cast<u32>(frame.computed[e]) + static_cast<u32>(frame.scheduled[e]);
    tokens += static_cast<u32>(frame.scheduled[e]);
    // A closed slot, or a slot without a row, has no room.
    if (after <= slot.room) [[likely]] continue;
    const std::string where = "slot " + std::to_string(index) + " in entry " + std::to_string(e);
    if (!table.is_open(index)) throw Error{kBadSlot, where + " is not open"};
    if (slot.row == kNone) throw Error{kNoRow, where + " holds no row"};
    throw Error{kBadArg, where + " must have blocks for " + std::to_string(after) + " tokens, got blocks for " +
                             std::to_string(slot.room)};
  }
  check_tokens(tokens, max_tokens);
}

void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table, const State& state,
                  const HostConfig& config) {
  const auto groups = static_cast<u32>(config.groups.size());
  u64 tokens = 0;
  for (u32 e = 0; e < num_entries; ++e) {
    const auto index = static_cast<u32>(frame.slots[e]);
    const auto computed = static_cast<u32>(frame.computed[e]);
    const u32 after = computed + static_cast<u32>(frame.scheduled[e]);
    tokens += static_cast<u32>(frame.scheduled[e]);
    const auto where = [&] { return "slot " + std::to_string(index) + " in entry " + std::to_string(e); };
    if (!table.is_open(index)) throw Error{kBadSlot, where() + " is not open"};
    const Slot& slot = table[index];
    if (slot.row == kNone) throw Error{kNoRow, where() + " holds no row"};
    for (u32 g = 0; g < groups; ++g) {
      const GroupConfig& group = config.groups[g];
      const u32 row = slot.row * groups + g;
      const u64 places = (u64{after} + group.block_size - 1) / group.block_size + group.spare_blocks;
      const u32 has = state.rows[row].num_blocks;
      if (places > has || has > config.most_places(group)) {
        throw Error{kBadArg, where() + " must have from " + std::to_string(places) + " to " +
                                 std::to_string(config.most_places(group)) + " places in group " + std::to_string(g) + " for " +
                                 std::to_string(after) + " tokens, got " + std::to_string(has)};
      }
      // Behind the first block no place is empty, except in groups whose blocks move. There, a
      // state is kept at the end of a step.
      if (group.type == GroupType::kMambaAlign || blocks_of(state, row)[computed / group.block_size] != kNullBlock) continue;
      throw Error{kBadArg, where() + " must have a block for token " + std::to_string(computed) + " in group " +
                               std::to_string(g) + ", got a place without a block"};
    }
  }
  check_tokens(tokens, max_tokens);
}

}  // namespace blockstep
