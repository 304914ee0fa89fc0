// The tables of a step: the arrays that a model runner reads for one plan, in batch order, with
// padding. src/core/tables.ts documents their layout in memory. Both files must agree.
#pragma once

#include <cstdint>
#include <vector>

#include "../../core/base/state.h"

namespace blockstep {

/// The parameters of one KV cache group's tables.
struct GroupShape {
  u32 block_size;
  u32 max_blocks_per_row;
  bool moves;  // blocks move to later places of their row, so places in the middle may be empty
};

/// The sizes of a set of tables.
struct TablesShape {
  u32 max_tokens;          // 1 .. kMaxTokens
  u32 max_entries;
  u32 max_blocks_per_row;  // with groups: of the first group
  // 0: no KV cache groups; each entry has one list of blocks, without empty places.
  u32 num_groups = 0;
  GroupShape groups[kMaxGroups] = {};  // [num_groups]

  /// Number of block lists of each entry. Each list has a slot mapping and a block table.
  u32 num_lists() const { return num_groups == 0 ? 1 : num_groups; }
  u32 blocks_per_row(u32 list) const { return num_groups == 0 ? max_blocks_per_row : groups[list].max_blocks_per_row; }
};

/// The arrays of one set of tables. With groups, these belong to the first group, and GroupTables
/// has the arrays of every group.
struct Tables {
  std::int64_t* slot_mapping;   // [max_tokens] block * block_size + offset; padding -1
  std::int32_t* input_ids;      // [max_tokens] token ids, -1 if not known yet; padding -1
  // [max_entries + 1] index of each entry's first token; padding: number of tokens.
  std::int32_t* query_start;
  std::int32_t* seq_lens;       // [max_entries] computed + scheduled; padding 0
  std::int32_t* num_computed;   // [max_entries] tokens computed before the step; padding 0
  std::int32_t* block_table;    // [max_entries][max_blocks_per_row] block ids; padding 0, the null block
};

/// The arrays of each group.
struct GroupTables {
  // Like Tables; in a group of states, -1 also if the place of a token is empty.
  std::int64_t* slot_mapping;
  std::int32_t* block_table;   // like Tables; 0 also in an empty place
};

/// Bytes of a set of tables.
inline u64 tables_bytes(const TablesShape& shape) {
  const u64 entries = shape.max_entries;
  u64 places = 0;
  for (u32 list = 0; list < shape.num_lists(); ++list) places += shape.blocks_per_row(list);
  return (u64{8} * shape.num_lists() + 4) * shape.max_tokens + 4 * (3 * entries + 1 + entries * places);
}

/// Places the arrays in tables_bytes() bytes from `base` on, which is aligned to 8. The slot
/// mappings of all groups come first, then the arrays that all groups share, then the block tables
/// of all groups.
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

/// The arrays of a group in tables made by lay_out_tables().
inline GroupTables lay_out_group(const TablesShape& shape, const Tables& at, u32 group) {
  GroupTables tables{at.slot_mapping + u64{group} * shape.max_tokens, at.block_table};
  for (u32 list = 0; list < group; ++list) tables.block_table += u64{shape.max_entries} * shape.blocks_per_row(list);
  return tables;
}

/// The content of a row of the block table: the first `width` blocks of one residency, which is one
/// use of a row.
///
/// Blocks are appended to a residency. In a KV cache group it may also lose blocks, whose places
/// are empty from then on. In most groups the empty places are the first places. Only in groups
/// with GroupShape::moves they can be anywhere. Even there, a place before the first block stays
/// empty. `empty` therefore is the length of the part that needs no second check.
struct RowContent {
  u64 residency;  // row << 32 | its generation; 0 = none
  u32 width;
  // Leading places that were empty when the row was written: all such places, or fewer.
  u32 empty = 0;
};
static_assert(sizeof(RowContent) == 16);

/// The tables of one frame, and how much of them the last gather wrote. The rest is padding.
struct FrameTables {
  TablesShape shape{0, 0, 0};
  Tables at{};  // null before bind()
  u32 num_tokens = 0;
  u32 num_entries = 0;
  std::vector<RowContent> rows;  // [lists][max_entries]

  /// Lays the tables out in zeroed memory and fills them with padding. @throws std::bad_alloc;
  /// nothing is changed
  void bind(const TablesShape& wanted, void* base);
  /// Ends a gather of `tokens` tokens and `entries` entries: overwrites the last gather's elements
  /// beyond these counts with padding, and remembers the counts.
  void pad(u32 tokens, u32 entries);
  /// Writes the `count` blocks of a residency to the row of an entry in the block table. Blocks are
  /// only appended to a residency, so blocks that the row already contains are not copied again.
  void write_row(u32 entry, u64 residency, const u32* blocks, u32 count);
  /// The same for a row of a KV cache group, whose places may be empty. The places of dropped
  /// blocks are cleared.
  void write_group_row(u32 group, u32 entry, u64 residency, const u32* blocks, u32 count);
};

}  // namespace blockstep
