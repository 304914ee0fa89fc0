// The tables of a step: the arrays that a model runner reads for one plan, in batch order, with padding.
// src/core/tables.ts documents their layout in memory; both files must agree.
#pragma once

#include <cstdint>
#include <vector>

#include "../../core/base/state.h"

namespace blockstep {

/// What the tables of one KV cache group depend on.
struct GroupShape {
  u32 block_size;
  u32 max_blocks_per_row;
  bool moves;  // blocks move to later places of their row, so that places in the middle may hold nothing
};

/// The sizes of a set of tables.
struct TablesShape {
  u32 max_tokens;          // 1 .. kMaxTokens
  u32 max_entries;
  u32 max_blocks_per_row;  // with groups: of the first group
  u32 num_groups = 0;      // 0: no KV cache groups. Then there is one list of blocks for each entry, and no place of it is empty.
  GroupShape groups[kMaxGroups] = {};  // [num_groups]

  /// Lists of blocks for each entry, of which each has a slot mapping and a block table.
  u32 num_lists() const { return num_groups == 0 ? 1 : num_groups; }
  u32 blocks_per_row(u32 list) const { return num_groups == 0 ? max_blocks_per_row : groups[list].max_blocks_per_row; }
};

/// The arrays of one set of tables. With groups, those of the first group; GroupTables has those of every group.
struct Tables {
  std::int64_t* slot_mapping;   // [max_tokens] block * block_size + offset; padding -1
  std::int32_t* input_ids;      // [max_tokens] token ids, -1 where not known yet; padding -1
  std::int32_t* query_start;    // [max_entries + 1] index of each entry's first token; padding: the number of tokens
  std::int32_t* seq_lens;       // [max_entries] computed + scheduled; padding 0
  std::int32_t* num_computed;   // [max_entries] tokens computed before the step; padding 0
  std::int32_t* block_table;    // [max_entries][max_blocks_per_row] block ids; padding 0, the null block
};

/// The arrays that each group has.
struct GroupTables {
  std::int64_t* slot_mapping;  // as in Tables; -1 also for a token whose place holds nothing, in a group of states
  std::int32_t* block_table;   // as in Tables; 0 also in a place that holds nothing
};

/// Bytes of a set of tables.
inline u64 tables_bytes(const TablesShape& shape) {
  const u64 entries = shape.max_entries;
  u64 places = 0;
  for (u32 list = 0; list < shape.num_lists(); ++list) places += shape.blocks_per_row(list);
  return (u64{8} * shape.num_lists() + 4) * shape.max_tokens + 4 * (3 * entries + 1 + entries * places);
}

/// Places the arrays one after the other in tables_bytes() bytes from `base` on, which is aligned to 8: the slot mappings of
/// all groups, then the arrays that there is one of, then the block tables of all groups.
inline Tables lay_out_tables(const TablesShape& shape, void* base) {
  Tables tables;
  tables.slot_mapping = static_cast<std::int64_t*>(base);
  tables.input_ids = reinterpret_cast<std::int32_t*>(tables.slot_mapping + u64{shape.num_lists()} * shape.max_tokens);
  tables.query_start = tables.input_ids + shape.max_tokens;
  tables.seq_lens = tables.query_start + shape.max_entries + 1;
  tables.num_computed = tables.seq_lens + shape.max_entries;
  tables.block_table = tables.num_computed + shape.max_entries;
  return tables;
}

/// The arrays of a group in tables that lay_out_tables() has placed.
inline GroupTables lay_out_group(const TablesShape& shape, const Tables& at, u32 group) {
  GroupTables tables{at.slot_mapping + u64{group} * shape.max_tokens, at.block_table};
  for (u32 list = 0; list < group; ++list) tables.block_table += u64{shape.max_entries} * shape.blocks_per_row(list);
  return tables;
}

/// What a row of the block table contains: the first `width` blocks of one residency, that is of one use of a row.
///
/// A residency is appended to. In a KV cache group it may also lose blocks: their places hold nothing from then on. In most
/// groups the places that hold nothing are the first ones. Only in groups with GroupShape::moves they can be anywhere. There
/// too a place in front of the first block never holds one again. So `empty` says how much of a row needs no second look.
struct RowContent {
  u64 residency;  // row << 32 | its generation; 0 = none
  u32 width;
  u32 empty = 0;  // leading places that held nothing when the row was written: all of them, or fewer
};
static_assert(sizeof(RowContent) == 16);

/// The tables of one frame, and how much the last gather wrote. Everything behind that is padding.
struct FrameTables {
  TablesShape shape{0, 0, 0};
  Tables at{};  // null before bind()
  u32 num_tokens = 0;
  u32 num_entries = 0;
  std::vector<RowContent> rows;  // [lists][max_entries]

  /// Lays the tables out in zeroed memory and fills them with padding. @throws std::bad_alloc; nothing is changed
  void bind(const TablesShape& wanted, void* base);
  /// Ends a gather of `tokens` tokens and `entries` entries: pads over what the last gather wrote beyond these counts,
  /// and remembers the counts.
  void pad(u32 tokens, u32 entries);
  /// Writes the `count` blocks of a residency to the row of an entry in the block table. The blocks of a residency are
  /// only appended to, so blocks that the row contains already are not copied again.
  void write_row(u32 entry, u64 residency, const u32* blocks, u32 count);
  /// The same for a row of a KV cache group, whose places may hold nothing. What was let go since is cleared.
  void write_group_row(u32 group, u32 entry, u64 residency, const u32* blocks, u32 count);
};

}  // namespace blockstep
