// ReferenceConfig: how a reference executor is set up. NativeReferenceConfig in src/core/native/native-reference.ts describes
// the fields.
#pragma once

#include "../../core/base/types.h"
#include "../../host/tables/tables.h"

namespace blockstep {

/// num_blocks includes the null block. All counts are at least 1 unless a comment says otherwise.
struct ReferenceConfig {
  u32 num_blocks;
  u32 block_size;
  TablesShape tables;
  u32 max_drafts;          // may be 0
  u32 pipeline_depth;      // 1 .. 3
  u32 seed;
  std::int32_t eos_token;  // -1 = none
  u32 wrong_drafts;        // how many of 2^32 drafts are made wrong on purpose
  bool report_only;        // after a finding, answer as if nothing had been found
};

}  // namespace blockstep
