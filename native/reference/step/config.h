// ReferenceConfig: how a reference executor is set up. NativeReferenceConfig in src/core/native/native-reference.ts describes
// the fields.
#pragma once

#include "../../core/base/types.h"
#include "../../host/tables/tables.h"

namespace blockstep {

/// Which of the tokens before it a token of a KV cache group needs.
enum class Reads : u32 {
  kAll,
  kWindow,  // the last `span` tokens, itself included
  kChunk,   // those of its chunk of `span` tokens
  kState,   // the state after the token before it: one for all tokens
};

/// What the model does with the blocks of one KV cache group.
struct ReferenceGroup {
  Reads reads = Reads::kAll;
  u32 span = 0;
  bool every_end = false;  // of states: written at the end of every block, and not only at the end of a step
  bool zeroed = false;     // of attention beside states: its blocks are zeroed when they are taken, so no state stands behind a text
};

/// num_blocks includes the null block. All counts are at least 1 unless a comment says otherwise.
struct ReferenceConfig {
  u32 num_blocks;
  u32 block_size;  // entries of a block; with KV cache groups the most tokens of a block, a state counts as one
  TablesShape tables;
  u32 max_drafts;          // may be 0
  u32 pipeline_depth;      // 1 .. 3
  u32 seed;
  std::int32_t eos_token;  // -1 = none
  u32 wrong_drafts;        // how many of 2^32 drafts are made wrong on purpose
  bool report_only;        // after a finding, answer as if nothing had been found
  ReferenceGroup groups[kMaxGroups] = {};  // [tables.num_lists()]

  bool has_states(u32 group) const { return groups[group].reads == Reads::kState; }
  /// Tokens per block in a group.
  u32 tokens_per_block(u32 group) const { return tables.num_groups == 0 ? block_size : tables.groups[group].block_size; }
};

}  // namespace blockstep
