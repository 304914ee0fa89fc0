// Checks of a frame that TypeScript has written. They change nothing.
#pragma once

#include "../base/config.h"
#include "../base/exchange.h"
#include "request_table.h"

namespace blockstep {

/// Checks that `from` is not above `to`. @throws Error kBadArg
void check_range(u32 from, u32 to);

/// Checks that every entry in [from, to) names a slot of the table and computes at least one token.
/// No count may be negative, or so large that sums overflow. @throws Error kBadSlot, kBadArg
void check_frame(const Frame& frame, u32 from, u32 to, const RequestTable& table);

/// Checks that the first `num_entries` entries can be gathered. Each slot must be open and hold a
/// row with blocks for its computed and scheduled tokens, as after run() and admit(). The scheduled
/// tokens must be at most `max_tokens` in total. The entries must have passed check_frame().
/// @throws Error kBadSlot, kNoRow, kBadArg
void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table);
/// The same with KV cache groups: each group must have places for these tokens, and blocks where
/// their KV is written. Slot::room is unsuitable then, because it only tells when a group must be
/// checked.
void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table, const State& state,
                  const HostConfig& config);

}  // namespace blockstep
