// What the reference executor finds wrong with the memory or the tables that it is given.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// In the order of MISMATCHES in src/core/native-reference.ts.
enum class Mismatch : u32 {
  // The tables say something else than the plan or the unpaged copy of the request.
  kUnknown,    // a running entry of a request that was never admitted
  kQueryStart,
  kComputed,
  kLength,
  kScheduled,
  kToken,
  kDraft,      // drafts are to be verified that nobody made
  // A place that cannot be.
  kSlot,
  kBlock,
  kMoved,      // a block of a row changed while its request was resident
  // The memory.
  kForeignWrite,  // into a block that another request took
  kUnwritten,     // read where nobody ever wrote
  kStale,         // read what was written before the block was taken last
  kForeign,       // read what another request wrote
  kWrong,         // read what this request wrote for another position or text
  kUnexpectedLoad,  // read a block that a lane filled after it was taken, or declared to be loaded
};

/// One finding. What does not apply is -1, or 0 in `owner`.
struct Finding {
  Mismatch kind;
  u32 entry;
  u64 handle;
  std::int64_t position = -1;
  std::int64_t block = -1;
  std::int64_t expected = -1;        // token or count
  std::int64_t found = -1;
  std::int64_t found_position = -1;
  u64 owner = 0;                     // who wrote, or took, what was found there
  std::int64_t generation = -1;      // of the block now
  std::int64_t found_generation = -1;
};

}  // namespace blockstep
