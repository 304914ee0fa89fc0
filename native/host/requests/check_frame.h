// Checks of a frame that TypeScript has written. They change nothing.
#pragma once

#include "../base/config.h"
#include "../base/exchange.h"
#include "request_table.h"

namespace blockstep {

/// Checks that `from` is not above `to`. @throws Error kBadArg
void check_range(u32 from, u32 to);

/// Every entry in [from, to) must name a slot of the table and compute at least one token, and no count may be negative
/// or too large to calculate with. @throws Error kBadSlot, kBadArg
void check_frame(const Frame& frame, u32 from, u32 to, const RequestTable& table);

/// Checks that the first `num_entries` entries can be gathered: each slot is open and holds a row with blocks for its
/// computed and scheduled tokens, as run() and admit() leave it, and the scheduled tokens are at most `max_tokens` in
/// all. check_frame() has passed the entries.
/// @throws Error kBadSlot, kNoRow, kBadArg
void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table);
/// The same with KV cache groups: each group has places for these tokens, and blocks where their KV is written. Slot::room is
/// no measure then, because it tells when a group has to be looked at.
void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table, const State& state,
                  const HostConfig& config);

}  // namespace blockstep
