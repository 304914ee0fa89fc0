// How a reference executor is set up, in native types. src/core/native-reference.ts describes the fields.
#pragma once

#include "../../core/base/types.h"
#include "../../host/tables/tables.h"

namespace blockstep {

/// The null block is one of num_blocks. All counts are at least 1 unless they say otherwise.
struct ReferenceConfig {
  u32 num_blocks;
  u32 block_size;
  TablesShape tables;
  u32 max_drafts;          // may be 0
  u32 pipeline_depth;      // 1 .. 3
  u32 seed;
  std::int32_t eos_token;  // -1 = none
  u32 wrong_drafts;        // so many of 2^32 drafts are wrong
  bool report_only;        // go on after a fault as if nothing had been found
};

}  // namespace blockstep
