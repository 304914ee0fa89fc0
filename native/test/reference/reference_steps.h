// Hand-made steps of a reference executor.
#pragma once

#include <memory>

#include "../../reference/step/step_io.h"
#include "../support/support.h"

namespace blockstep::test {

/// The buffers of one step, each in its own allocation of the exact size.
struct Buffers {
  std::unique_ptr<double[]> io;
  std::unique_ptr<std::int64_t[]> tables;
  std::vector<std::int32_t> known;
  std::vector<std::int32_t> zeroed;
  u64 io_bytes;
  u64 table_bytes;

  explicit Buffers(const ReferenceConfig& config)
      : io(new double[step_io_bytes(config) / 8 + 1]()),
        tables(new std::int64_t[tables_bytes(config.tables) / 8 + 1]()),
        io_bytes(step_io_bytes(config)),
        table_bytes(tables_bytes(config.tables)) {}
};

/// Fills a step with a prompt of `count` tokens, all computed, in blocks from `first` on.
inline void fill(const ReferenceConfig& config, Buffers& buffers, u32 handle, u32 count, u32 first) {
  StepIo io = lay_out_step(config, buffers.io.get());
  Tables tables = lay_out_tables(config.tables, buffers.tables.get());
  const auto set = [](const std::int32_t* column, u32 value) {
    *const_cast<std::int32_t*>(column) = static_cast<std::int32_t>(value);
  };
  const u32 blocks = (count + config.block_size - 1) / config.block_size;
  *const_cast<double*>(io.handles) = handle;
  io.control[kNumEntries] = 1;
  set(io.kinds, 1);
  set(io.scheduled, count);
  set(io.num_blocks, blocks);
  set(io.num_new_blocks, blocks);
  set(io.num_drafts, 0);
  set(io.samples, 1);
  set(io.num_known, count);
  set(io.num_prompt, count);
  buffers.known.assign(count, 7);
  for (u32 i = 0; i < blocks; ++i) tables.block_table[i] = static_cast<std::int32_t>(first + i);
  for (u32 i = 0; i < count; ++i) {
    tables.input_ids[i] = 7;
    tables.slot_mapping[i] = first * config.block_size + i;
  }
  tables.query_start[0] = 0;
  tables.query_start[1] = static_cast<std::int32_t>(count);
  tables.seq_lens[0] = static_cast<std::int32_t>(count);
  tables.num_computed[0] = 0;
}

/// Fills a step with a decode of one token at position `computed`, in the blocks of fill().
inline void decode(const ReferenceConfig& config, Buffers& buffers, u32 handle, u32 computed, u32 first) {
  fill(config, buffers, handle, computed + 1, first);
  StepIo io = lay_out_step(config, buffers.io.get());
  Tables tables = lay_out_tables(config.tables, buffers.tables.get());
  const auto set = [](const std::int32_t* column, u32 value) {
    *const_cast<std::int32_t*>(column) = static_cast<std::int32_t>(value);
  };
  set(io.kinds, 0);
  set(io.scheduled, 1);
  set(io.num_new_blocks, computed % config.block_size == 0);
  set(io.num_known, 0);
  buffers.known.clear();
  tables.input_ids[0] = -1;
  tables.slot_mapping[0] = tables.slot_mapping[computed];
  tables.query_start[1] = 1;
  tables.num_computed[0] = static_cast<std::int32_t>(computed);
}

/// One request with KV cache groups, step by step: place i of group g is block first + kStride * g
/// + i.
struct GroupText {
  static constexpr u32 kStride = 12;
  const ReferenceConfig& config;
  u32 handle;
  u32 first;
  u32 num_prompt;

  std::int32_t block(u32 group, u32 place) const { return static_cast<std::int32_t>(first + kStride * group + place); }

  /// Appends an entry to a step. It computes the tokens [from, to), whose last tokens are `drafts`.
  void append(Buffers& buffers, u32 from, u32 to, Span<const std::int32_t> drafts) const {
    StepIo io = lay_out_step(config, buffers.io.get());
    const Tables tables = lay_out_tables(config.tables, buffers.tables.get());
    const auto set = [](const std::int32_t* column, u32 value) {
      *const_cast<std::int32_t*>(column) = static_cast<std::int32_t>(value);
    };
    const auto e = static_cast<u32>(io.control[kNumEntries]++);
    const auto query = static_cast<u32>(tables.query_start[e]);
    const_cast<double*>(io.handles)[e] = handle;
    set(io.kinds + e, from == 0);
    set(io.scheduled + e, to - from);
    set(io.num_drafts + e, drafts.size);
    for (u32 j = 0; j < drafts.size; ++j) set(io.draft_tokens + e * config.max_drafts + j, static_cast<u32>(drafts.data[j]));
    set(io.samples + e, to >= num_prompt);
    set(io.num_known + e, from == 0 ? num_prompt : 0);
    set(io.num_prompt + e, num_prompt);
    buffers.known.insert(buffers.known.end(), from == 0 ? num_prompt : 0, 7);
    for (u32 g = 0; g < config.tables.num_groups; ++g) {
      const GroupTables group = lay_out_group(config.tables, tables, g);
      const u32 size = config.tables.groups[g].block_size;
      const u32 places = (to + size - 1) / size;
      const u32 before = (from + size - 1) / size;
      set(io.num_blocks + u64{g} * config.tables.max_entries + e, places);
      set(io.num_new_blocks + u64{g} * config.tables.max_entries + e, places - before);
      for (u32 i = 0; i < places; ++i) {
        group.block_table[e * config.tables.blocks_per_row(g) + i] = block(g, i);
        if (i >= before && config.groups[g].zeroed) buffers.zeroed.push_back(block(g, i));
      }
      for (u32 p = from; p < to; ++p) {
        group.slot_mapping[query + p - from] = std::int64_t{block(g, p / size)} * size + p % size;
      }
    }
    for (u32 p = from; p < to; ++p) tables.input_ids[query + p - from] = p < num_prompt ? 7 : -1;
    tables.query_start[e + 1] = static_cast<std::int32_t>(query + to - from);
    tables.seq_lens[e] = static_cast<std::int32_t>(to);
    tables.num_computed[e] = static_cast<std::int32_t>(from);
  }
};

/// Random values that are likely to cause errors.
inline u32 damage(Random& random) {
  constexpr u32 kWords[] = {0, 1, 2, 5, 0xffffffff, 0x7fffffff, 0x80000000, 0x7ffffffe, 1000, 64};
  return random.one_in(3) ? static_cast<u32>(random.next()) : kWords[random.below(10)];
}

}  // namespace blockstep::test
