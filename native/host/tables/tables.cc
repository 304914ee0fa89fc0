#include "tables.h"

#include <algorithm>

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
  // The query starts are padded with the number of tokens. Where that number did not change, only what the last gather
  // wrote is padded.
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

}  // namespace blockstep
