#include "host_gather.h"

#include <algorithm>
#include <string>

#include "../requests/check_frame.h"

namespace blockstep {

void HostGather::bind(u32 frame, void* base, u32 max_tokens) {
  if (tables_[frame].at.slot_mapping) {
    throw Error{kBadArg, "frame " + std::to_string(frame) + " has its tables already"};
  }
  tables_[frame].bind(shape(max_tokens), base);
}

void HostGather::gather(u32 index, const Frame& frame, u32 num_entries) {
  FrameTables& tables = tables_[index];
  if (!tables.at.slot_mapping) throw Error{kBadArg, "frame " + std::to_string(index) + " has no tables"};
  check_frame(frame, 0, num_entries, table_);
  check_gather(frame, num_entries, tables.shape.max_tokens, table_);
  u32 token = 0;
  for (u32 e = 0; e < num_entries; ++e) {
    gather_entry(tables, frame, e, token);
    token += static_cast<u32>(frame.scheduled[e]);
  }
  tables.pad(token, num_entries);
}

/// Writes one entry, whose first token stands at index `token` of the step.
void HostGather::gather_entry(FrameTables& tables, const Frame& frame, u32 entry, u32 token) const {
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
