// replay(): applies a recorded log to a fresh state, to analyse an incident or to compare back
// ends.
#pragma once

#include <string>
#include <vector>

#include "../../core/blocks/apply.h"
#include "../../core/audit/check.h"
#include "../../core/audit/digest.h"
#include "../../base/memory.h"

namespace blockstep {

struct ReplayResult {
  u64 digest;
  u64 rolling_digest;
  u64 commands;
  u32 free_blocks;
};

/// Checks and applies the recorded batches in order. A batch is its length in words, followed by
/// the words of a log, like HostCore::recorded(). `words` is the length of all batches. @throws
/// Error kBadLog naming the first batch that cannot be applied, kNoMemory; std::bad_alloc
inline ReplayResult replay(const Config& config, const u32* log, u64 words) {
  OwnedState owned(config);
  State& state = owned.state;
  SoloTeam solo;
  std::vector<u32> ids;
  for (u64 at = 0, batch = 0; at < words; ++batch) {
    const u32 length = log[at++];
    const u32* commands = log + at;
    const char* why = length > words - at ? "it runs past the end of the log" : refusal(state, commands, length);
    if (why) throw Error{kBadLog, "batch " + std::to_string(batch) + " of the log does not apply: " + why};
    const u32 taken = taken_by(commands, length);
    if (taken > ids.size()) ids.resize(taken);
    Results results{ids.data(), taken, 0, 0, 0};
    apply(solo, state, commands, length, results);
    if (results.fault) throw Error{kBadLog, std::string("the log broke the state: ") + describe(results.fault)};
    at += length;
  }
  return {digest(state), state.rolling_digest, state.num_commands, state.num_free};
}

}  // namespace blockstep
