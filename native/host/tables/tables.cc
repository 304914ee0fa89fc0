#include "tables.h"

#include <algorithm>

namespace blockstep {

void FrameTables::bind(const TablesShape& wanted, void* base) {
  rows.assign(u64{wanted.num_lists()} * wanted.max_entries, {});
  shape = wanted;
  at = lay_out_tables(wanted, base);
  std::fill_n(at.slot_mapping, u64{shape.num_lists()} * shape.max_tokens, -1);
  std::fill_n(at.input_ids, shape.max_tokens, -1);
}

void FrameTables::pad(u32 tokens, u32 entries) {
  if (tokens < num_tokens) {
    for (u32 list = 0; list < shape.num_lists(); ++list) {
      std::int64_t* mapping = at.slot_mapping + u64{list} * shape.max_tokens;
      std::fill(mapping + tokens, mapping + num_tokens, -1);
    }
    std::fill(at.input_ids + tokens, at.input_ids + num_tokens, -1);
  }
  // The query starts are padded with the number of tokens. If that number did not change, only the
  // elements that the last gather wrote need padding.
  const u32 end = tokens == num_tokens ? std::max(entries, num_entries) : shape.max_entries;
  std::fill(at.query_start + entries, at.query_start + end + 1, static_cast<std::int32_t>(tokens));
  for (u32 e = entries; e < num_entries; ++e) {
    at.seq_lens[e] = 0;
    at.num_computed[e] = 0;
    if (shape.num_groups == 0) write_row(e, 0, nullptr, 0);
    for (u32 g = 0; g < shape.num_groups; ++g) write_group_row(g, e, 0, nullptr, 0);
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

void FrameTables::write_group_row(u32 group, u32 entry, u64 residency, const u32* blocks, u32 count) {
  RowContent& content = rows[u64{group} * shape.max_entries + entry];
  std::int32_t* row = lay_out_group(shape, at, group).block_table + u64{entry} * shape.blocks_per_row(group);
  const bool lasts = residency == content.residency;
  u32 kept = lasts ? std::min(content.width, count) : 0;
  u32 empty = lasts ? content.empty : 0;
  // Moved blocks may be anywhere behind the first block, so all of that part is written again.
  // These are a few places, because unneeded blocks are dropped.
  if (shape.groups[group].moves) kept = std::min(kept, empty);
  for (; empty < count && blocks[empty] == kNullBlock; ++empty) {
    if (empty < kept) row[empty] = 0;
  }
  std::copy(blocks + kept, blocks + count, row + kept);
  if (count < content.width) std::fill(row + count, row + content.width, 0);
  content = {residency, count, empty};
}

}  // namespace blockstep
