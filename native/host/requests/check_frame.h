// The checks of what a frame of the exchange buffer asks for. They change nothing.
#pragma once

#include "../base/exchange.h"
#include "request_table.h"

namespace blockstep {

/// @throws Error kBadArg if the range of entries is none
void check_range(u32 from, u32 to);

/// Every entry in [from, to) must name a slot of the table and compute at least one token, and no count may be negative
/// or too large to calculate with. @throws Error kBadSlot, kBadArg
void check_frame(const Frame& frame, u32 from, u32 to, const RequestTable& table);

/// What a run has made true of a plan: the slot of each of the first `num_entries` entries is open, and its row has
/// blocks for all its tokens. And they are not more than `max_tokens` together. check_frame() has passed the entries.
/// @throws Error kBadSlot, kNoRow, kBadArg
void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens, const RequestTable& table);

}  // namespace blockstep
