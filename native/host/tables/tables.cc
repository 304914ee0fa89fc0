#include "tables.h"

#include <algorithm>

#include "../core.h"

namespace blockstep {

void FrameTables::bind(const TablesShape& wanted, void* base) {
  rows.assign(wanted.max_entries, {});
  shape = wanted;
  at = lay_out_tables(wanted, base);
  std::fill_n(at.slot_mapping, shape.max_tokens, -1);
  std::fill_n(at.input_ids, shape.max_tokens, -1);
}

void FrameTables::pad(u32 tokens, u32 entries) {
  if (tokens < num_tokens) {
    std::fill(at.slot_mapping + tokens, at.slot_mapping + num_tokens, -1);
    std::fill(at.input_ids + tokens, at.input_ids + num_tokens, -1);
  }
  // The one array whose padding is not constant; where it did not change, only what the last gather wrote is padded.
  const u32 end = tokens == num_tokens ? std::max(entries, num_entries) : shape.max_entries;
  std::fill(at.query_start + entries, at.query_start + end + 1, static_cast<std::int32_t>(tokens));
  for (u32 e = entries; e < num_entries; ++e) {
    at.seq_lens[e] = 0;
    at.num_computed[e] = 0;
    write_row(e, 0, nullptr, 0);
  }
  num_tokens = tokens;
  num_entries = entries;
}

void FrameTables::write_row(u32 entry, u64 residency, const u32* blocks, u32 count) {
  RowContent& content = rows[entry];
  std::int32_t* row = at.block_table + u64{entry} * shape.max_blocks_per_row;
  const u32 from = residency == content.residency ? std::min(content.width, count) : 0;
  std::copy(blocks + from, blocks + count, row + from);
  if (count < content.width) std::fill(row + count, row + content.width, 0);
  content = {residency, count};
}

u64 HostCore::tables_bytes(u32 max_tokens) const {
  return blockstep::tables_bytes({max_tokens, config_.max_entries, config_.pool.max_blocks_per_row});
}

void HostCore::bind_tables(u32 frame, void* base, u32 max_tokens) {
  require_sound();
  if (tables_[frame].at.slot_mapping) {
    throw Error{kBadArg, "frame " + std::to_string(frame) + " has its tables already"};
  }
  tables_[frame].bind({max_tokens, config_.max_entries, config_.pool.max_blocks_per_row}, base);
}

void HostCore::gather(u32 frame_index, u32 num_entries) {
  drain();
  FrameTables& tables = tables_[frame_index];
  if (!tables.at.slot_mapping) throw Error{kBadArg, "frame " + std::to_string(frame_index) + " has no tables"};
  const Frame frame = exchange_.frame(frame_index);
  check_frame(frame, 0, num_entries);
  check_gather(frame, num_entries, tables.shape.max_tokens);
  u32 token = 0;
  for (u32 e = 0; e < num_entries; ++e) {
    gather_entry(tables, frame, e, token);
    token += static_cast<u32>(frame.scheduled[e]);
  }
  tables.pad(token, num_entries);
}

/// What run() has made true of a plan: every entry's slot is open, and its row has blocks for all its tokens.
void HostCore::check_gather(const Frame& frame, u32 num_entries, u32 max_tokens) const {
  u64 tokens = 0;
  for (u32 e = 0; e < num_entries; ++e) {
    const auto index = static_cast<u32>(frame.slots[e]);
    const Slot& slot = table_[index];
    const u32 after = static_cast<u32>(frame.computed[e]) + static_cast<u32>(frame.scheduled[e]);
    tokens += static_cast<u32>(frame.scheduled[e]);
    if (after <= slot.room) [[likely]] continue;  // a slot that is closed or holds no row has no room
    const std::string where = "slot " + std::to_string(index) + " in entry " + std::to_string(e);
    if (!table_.is_open(index)) throw Error{kBadSlot, where + " is not open"};
    if (slot.row == kNone) throw Error{kNoRow, where + " holds no row"};
    throw Error{kBadArg, where + " must have blocks for " + std::to_string(after) + " tokens, got blocks for " +
                             std::to_string(slot.room)};
  }
  if (tokens <= max_tokens) return;
  throw Error{kBadArg, "a step must have at most " + std::to_string(max_tokens) + " tokens (maxTokens), got " +
                           std::to_string(tokens)};
}

/// How many of the `scheduled` tokens behind `computed` ones the request table knows; they are the first of them.
u32 HostCore::known_tokens(const Slot& slot, u32 computed, u32 scheduled) {
  return slot.num_tokens > computed ? std::min(scheduled, slot.num_tokens - computed) : 0;
}

/// Writes one entry, whose first token stands at index `token` of the step.
void HostCore::gather_entry(FrameTables& tables, const Frame& frame, u32 entry, u32 token) const {
  const Tables& at = tables.at;
  const Slot& slot = table_[static_cast<u32>(frame.slots[entry])];
  const auto computed = static_cast<u32>(frame.computed[entry]);
  const auto scheduled = static_cast<u32>(frame.scheduled[entry]);
  const u32 after = computed + scheduled;
  at.query_start[entry] = static_cast<std::int32_t>(token);
  at.seq_lens[entry] = static_cast<std::int32_t>(after);
  at.num_computed[entry] = static_cast<std::int32_t>(computed);

  const u32 known = known_tokens(slot, computed, scheduled);
  std::copy_n(slot.tokens + computed, known, at.input_ids + token);
  std::fill_n(at.input_ids + token + known, scheduled - known, -1);

  const u32* blocks = blocks_of(state_, slot.row);
  std::int64_t* mapping = at.slot_mapping + token;
  for (u32 position = computed; position < after;) {
    const u32 offset = position % config_.block_size;
    const u32 run = std::min(config_.block_size - offset, after - position);
    std::int64_t place = std::int64_t{blocks[position / config_.block_size]} * config_.block_size + offset;
    for (u32 i = 0; i < run; ++i) *mapping++ = place++;
    position += run;
  }

  tables.write_row(entry, u64{slot.row} << 32 | state_.rows[slot.row].generation, blocks, slot.num_blocks);
}

}  // namespace blockstep
