#include "host_gather.h"

#include <algorithm>
#include <string>

#include "../requests/check_frame.h"

namespace blockstep {

namespace {

/// Writes the slots of the tokens [from, to) of a row. With groups a place may be empty, and then
/// has no slots.
template <bool Groups>
void write_mapping(std::int64_t* mapping, const u32* blocks, u32 block_size, u32 from, u32 to) {
  for (u32 position = from; position < to;) {
    const u32 offset = position % block_size;
    const u32 run = std::min(block_size - offset, to - position);
    const u32 block = blocks[position / block_size];
    std::int64_t place = std::int64_t{block} * block_size + offset;
    if (Groups && block == kNullBlock) {
      mapping = std::fill_n(mapping, run, -1);
    } else {
      for (u32 i = 0; i < run; ++i) *mapping++ = place++;
    }
    position += run;
  }
}

}  // namespace

void HostGather::bind(u32 frame, void* base, u32 max_tokens) {
  if (tables_[frame].at.slot_mapping) {
    throw Error{kBadArg, "frame " + std::to_string(frame) + " has its tables already"};
  }
  tables_[frame].bind(tables_shape(config_, max_tokens), base);
}

void HostGather::gather(u32 index, const Frame& frame, u32 num_entries) {
  FrameTables& tables = tables_[index];
  if (!tables.at.slot_mapping) throw Error{kBadArg, "frame " + std::to_string(index) + " has no tables"};
  check_frame(frame, 0, num_entries, table_);
  if (config_.groups.empty()) {
    check_gather(frame, num_entries, tables.shape.max_tokens, table_);
    tables.pad(gather_entries<false>(tables, frame, num_entries), num_entries);
  } else {
    check_gather(frame, num_entries, tables.shape.max_tokens, table_, state_, config_);
    tables.pad(gather_entries<true>(tables, frame, num_entries), num_entries);
  }
}

/// Writes all entries, and returns the number of their tokens.
template <bool Groups>
u32 HostGather::gather_entries(FrameTables& tables, const Frame& frame, u32 num_entries) const {
  u32 token = 0;
  for (u32 e = 0; e < num_entries; ++e) {
    gather_entry<Groups>(tables, frame, e, token);
    token += static_cast<u32>(frame.scheduled[e]);
  }
  return token;
}

/// Writes the entry's tables of each KV cache group.
template <bool Groups>
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

  if constexpr (Groups) return gather_groups(tables, slot, entry, token);
  const u32* blocks = blocks_of(state_, slot.row);
  write_mapping<false>(at.slot_mapping + token, blocks, config_.block_size, computed, after);
  tables.write_row(entry, u64{slot.row} << 32 | state_.rows[slot.row].generation, blocks, slot.num_blocks);
}

/// Writes what each KV cache group has of an entry.
void HostGather::gather_groups(FrameTables& tables, const Slot& slot, u32 entry, u32 token) const {
  const auto computed = static_cast<u32>(tables.at.num_computed[entry]);
  const auto after = static_cast<u32>(tables.at.seq_lens[entry]);
  const u32 groups = tables.shape.num_groups;
  for (u32 g = 0; g < groups; ++g) {
    const u32 row = slot.row * groups + g;
    const u32* blocks = blocks_of(state_, row);
    write_mapping<true>(tables.at.slot_mapping + u64{g} * tables.shape.max_tokens + token, blocks, tables.shape.groups[g].block_size,
                  computed, after);
    tables.write_group_row(g, entry, u64{row} << 32 | state_.rows[row].generation, blocks, state_.rows[row].num_blocks);
  }
}

}  // namespace blockstep
