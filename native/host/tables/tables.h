// The tables of a step: the arrays that a model runner reads for one plan, in batch order, with padding.
// src/core/tables.ts documents their layout in memory; both files must agree.
#pragma once

#include <cstdint>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep {

/// The sizes of a set of tables.
struct TablesShape {
  u32 max_tokens;          // 1 .. kMaxTokens
  u32 max_entries;
  u32 max_blocks_per_row;
};

/// The arrays of one set of tables, one after the other in one piece of memory that is aligned to 8.
struct Tables {
  std::int64_t* slot_mapping;   // [max_tokens] block * block_size + offset; padding -1
  std::int32_t* input_ids;      // [max_tokens] token ids, -1 where not known yet; padding -1
  std::int32_t* query_start;    // [max_entries + 1] index of each entry's first token; padding: the number of tokens
  std::int32_t* seq_lens;       // [max_entries] computed + scheduled; padding 0
  std::int32_t* num_computed;   // [max_entries] tokens computed before the step; padding 0
  std::int32_t* block_table;    // [max_entries][max_blocks_per_row] block ids; padding 0, the null block
};

/// Bytes of a set of tables.
inline u64 tables_bytes(const TablesShape& shape) {
  const u64 entries = shape.max_entries;
  return u64{12} * shape.max_tokens + 4 * (3 * entries + 1 + entries * shape.max_blocks_per_row);
}

/// Places the arrays one after the other in tables_bytes() bytes from `base` on.
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

/// What a row of the block table contains: the first `width` blocks of one residency, that is of one use of a row.
struct RowContent {
  u64 residency;  // row << 32 | its generation; 0 = none
  u32 width;
};

/// The tables of one frame, and how much the last gather wrote. Everything behind that is padding.
struct FrameTables {
  TablesShape shape{0, 0, 0};
  Tables at{};  // null before bind()
  u32 num_tokens = 0;
  u32 num_entries = 0;
  std::vector<RowContent> rows;  // [max_entries]

  /// Lays the tables out in zeroed memory and fills them with padding. @throws std::bad_alloc; nothing is changed
  void bind(const TablesShape& wanted, void* base);
  /// Ends a gather of `tokens` tokens and `entries` entries: pads over what the last gather wrote beyond these counts,
  /// and remembers the counts.
  void pad(u32 tokens, u32 entries);
  /// Writes the `count` blocks of a residency to the row of an entry in the block table. The blocks of a residency are
  /// only appended to, so blocks that the row contains already are not copied again.
  void write_row(u32 entry, u64 residency, const u32* blocks, u32 count);
};

}  // namespace blockstep
