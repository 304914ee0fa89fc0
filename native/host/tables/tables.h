// The step tables: what a model runner reads of one plan, in batch order, padded. src/core/tables.ts draws their layout
// in memory; both must agree.
#pragma once

#include <cstdint>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep {

/// What decides how large a set of tables is.
struct TablesShape {
  u32 max_tokens;          // 1 .. kMaxTokens
  u32 max_entries;
  u32 max_blocks_per_row;
};

/// The arrays of one set of tables, one after the other in one piece of memory that is aligned to 8.
struct Tables {
  std::int64_t* slot_mapping;   // [max_tokens] block * block_size + offset; padding -1
  std::int32_t* input_ids;      // [max_tokens] -1 where the request table does not know the token; padding -1
  std::int32_t* query_start;    // [max_entries + 1] first token of each entry; padded with the number of tokens
  std::int32_t* seq_lens;       // [max_entries] computed + scheduled; padding 0
  std::int32_t* num_computed;   // [max_entries]; padding 0
  std::int32_t* block_table;    // [max_entries][max_blocks_per_row]; padding 0, the null block
};

/// Bytes of a set of tables.
inline u64 tables_bytes(const TablesShape& shape) {
  const u64 entries = shape.max_entries;
  return u64{12} * shape.max_tokens + 4 * (3 * entries + 1 + entries * shape.max_blocks_per_row);
}

/// Where the arrays lie in tables_bytes() bytes from `base` on.
inline Tables lay_out_tables(const TablesShape& shape, void* base) {
  Tables tables;
  tables.slot_mapping = static_cast<std::int64_t*>(base);
  tables.input_ids = reinterpret_cast<std::int32_t*>(tables.slot_mapping + shape.max_tokens);
  tables.query_start = tables.input_ids + shape.max_tokens;
  tables.seq_lens = tables.query_start + shape.max_entries + 1;
  tables.num_computed = tables.seq_lens + shape.max_entries;
  tables.block_table = tables.num_computed + shape.max_entries;
  return tables;
}

/// What a row of the block table holds: the first `width` blocks of one residency.
struct RowContent {
  u64 residency;  // row << 32 | its generation; 0 = none
  u32 width;
};

/// The tables of one frame, and what the last gather wrote: everything behind that is padding.
struct FrameTables {
  TablesShape shape{0, 0, 0};
  Tables at{};  // null before bind()
  u32 num_tokens = 0;
  u32 num_entries = 0;
  std::vector<RowContent> rows;  // [max_entries]

  /// Empty tables over zeroed memory: all padding. @throws std::bad_alloc, and nothing is changed
  void bind(const TablesShape& wanted, void* base);
  /// Writes padding over what the last gather wrote beyond these counts, and remembers them.
  void pad(u32 tokens, u32 entries);
  /// Makes a row of the block table hold these blocks of a residency. While a residency lasts its blocks are only
  /// appended to, so that those which stand here already are not copied again.
  void write_row(u32 entry, u64 residency, const u32* blocks, u32 count);
};

}  // namespace blockstep
