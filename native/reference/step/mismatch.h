// Mismatch and Finding: the errors in memory or tables that the reference executor can find.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// In the order of MISMATCHES in src/core/native/native-reference.ts.
enum class Mismatch : u32 {
  // The tables differ from the plan or from the unpaged copy of the request:
  kUnknown,    // a running entry of a request that was never admitted
  kQueryStart,
  kComputed,
  kLength,
  kScheduled,
  kToken,
  kDraft,      // the plan verifies drafts that were never made
  // Impossible slots or blocks:
  kSlot,
  kBlock,
  kMoved,      // a block of a row changed while its request was resident
  // Wrong entries in the memory, or writes that would cause them:
  kForeignWrite,  // a write into a block that another request took
  kUnwritten,     // a read of an entry that was never written
  kStale,         // a read of an entry from before the block was last taken
  kForeign,       // a read of an entry that another request wrote
  kWrong,         // a read of an entry that this request wrote for another position or text
  kUnexpectedLoad,  // a read of a block that a lane filled after it was taken or adopted
  kNullRead,        // with KV cache groups: a read of an empty place
  kUnzeroed,        // with groups: a state behind the text in a zeroed block
};

/// One finding. A field that is not applicable is -1, or 0 for `owner`.
struct Finding {
  Mismatch kind;
  u32 entry;
  u64 handle;
  std::int64_t position = -1;
  std::int64_t block = -1;
  std::int64_t expected = -1;        // token or count
  std::int64_t found = -1;
  std::int64_t found_position = -1;
  u64 owner = 0;                     // handle of the request that wrote the entry, or took the block
  std::int64_t generation = -1;      // generation of the block now
  std::int64_t found_generation = -1;  // generation of the entry that was read
  std::int64_t group = -1;           // KV cache group, then the place in its row; only with groups
  std::int64_t place = -1;
};

}  // namespace blockstep
