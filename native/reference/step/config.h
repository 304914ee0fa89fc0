// ReferenceConfig: the configuration of a reference executor. NativeReferenceConfig in
// src/core/native/native-reference.ts describes the fields.
#pragma once

#include "../../core/base/types.h"
#include "../../host/tables/tables.h"

namespace blockstep {

/// The earlier tokens that a token of a KV cache group needs.
enum class Reads : u32 {
  kAll,
  kWindow,  // the last `span` tokens, including itself
  kChunk,   // the tokens of its chunk of `span` tokens
  kState,   // the state after the previous token, shared by all tokens
};

/// The model's use of the blocks of one KV cache group.
struct ReferenceGroup {
  Reads reads = Reads::kAll;
  u32 span = 0;
  bool every_end = false;  // of states: also written at the end of every block
  bool zeroed = false;     // of attention beside states: blocks are zeroed when taken
};

/// num_blocks includes the null block. All counts are at least 1 unless a comment says otherwise.
struct ReferenceConfig {
  u32 num_blocks;
  u32 block_size;  // entries of a block; with groups the most tokens, a state counts as 1
  TablesShape tables;
  u32 max_drafts;          // may be 0
  u32 pipeline_depth;      // 1 .. 3
  u32 seed;
  std::int32_t eos_token;  // -1 = none
  u32 wrong_drafts;        // number of deliberately wrong drafts among 2^32
  bool report_only;        // after a finding, answer as without findings
  ReferenceGroup groups[kMaxGroups] = {};  // [tables.num_lists()]

  bool has_states(u32 group) const { return groups[group].reads == Reads::kState; }
  /// Tokens per block in a group.
  u32 tokens_per_block(u32 group) const { return tables.num_groups == 0 ? block_size : tables.groups[group].block_size; }
};

}  // namespace blockstep
