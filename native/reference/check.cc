// ReferenceModel::check(): whether a plan is consistent in itself. It changes nothing.
#include <algorithm>

#include "reference.h"

namespace blockstep {
namespace {

constexpr double kMaxHandle = 9007199254740991.0;
constexpr std::int64_t kMaxTokenId = 0x7ffffffe;

void require(bool holds, const char* what, u32 entry, std::int64_t got, const char* expected) {
  if (holds) return;
  throw Error{kBadArg, std::string(what) + " of entry " + std::to_string(entry) + " must be " + expected + ", got " +
                           std::to_string(got)};
}

}  // namespace

void ReferenceModel::check(const StepIo& io, Span<const std::int32_t> known) {
  const auto n = static_cast<u32>(io.control[kNumEntries]);
  if (n > config_.tables.max_entries) {
    throw Error{kBadArg, "a plan must have at most " + std::to_string(config_.tables.max_entries) + " entries, got " +
                             std::to_string(io.control[kNumEntries])};
  }
  handles_.assign(io.handles, io.handles + n);
  std::sort(handles_.begin(), handles_.end());
  const auto twice = std::adjacent_find(handles_.begin(), handles_.end());
  if (twice != handles_.end()) throw Error{kBadArg, "a handle must be in the plan once, got " + std::to_string(*twice)};
  u64 tokens = 0;
  u64 num_known = 0;
  for (u32 e = 0; e < n; ++e) {
    const double handle = io.handles[e];
    const bool good = handle >= 1 && handle <= kMaxHandle && handle == static_cast<double>(static_cast<u64>(handle));
    require(good, "handle", e, good ? 0 : -1, "a handle");
    require(io.kinds[e] >= 0 && io.kinds[e] <= 2, "kind", e, io.kinds[e], "an EntryKind");
    require(io.scheduled[e] >= 1, "numScheduledTokens", e, io.scheduled[e], "at least 1");
    for (u32 g = 0; g < config_.tables.num_lists(); ++g) {
      const std::int32_t places = io.num_blocks[at(g, e)];
      const std::int32_t taken = io.num_new_blocks[at(g, e)];
      require(static_cast<u32>(places) <= config_.tables.blocks_per_row(g), "numBlocks", e, places, "what a row has room for");
      require(static_cast<u32>(taken) <= static_cast<u32>(places), "numNewBlocks", e, taken, "at most numBlocks");
    }
    const auto drafts = static_cast<u32>(io.num_drafts[e]);
    require(drafts <= config_.max_drafts && drafts < static_cast<u32>(io.scheduled[e]), "numDraftTokens", e,
            io.num_drafts[e], "at most maxDrafts and less than numScheduledTokens");
    for (u32 j = 0; j < drafts; ++j) {
      const std::int32_t token = io.draft_tokens[u64{e} * config_.max_drafts + j];
      require(token >= -2 && token <= kMaxTokenId, "a draft token", e, token, "a token id, -1 or -2");
    }
    const bool admitted = io.kinds[e] != 0;
    const bool expected = admitted ? io.num_known[e] >= 1 : io.num_known[e] == 0;
    require(expected, "the number of known tokens", e, io.num_known[e],
            admitted ? "at least 1 where a request is admitted" : "0 where it goes on running");
    require(!admitted || (io.num_prompt[e] >= 1 && io.num_prompt[e] <= io.num_known[e]), "numPromptTokens", e,
            io.num_prompt[e], "from 1 to the number of known tokens");
    for (u32 i = 0; i < static_cast<u32>(io.num_known[e]) && num_known + i < known.size; ++i) {
      const std::int32_t token = known.data[num_known + i];
      require(token >= 0 && token <= kMaxTokenId, "a token", e, token, "a token id");
    }
    tokens += static_cast<u32>(io.scheduled[e]);
    num_known += static_cast<u32>(io.num_known[e]);
  }
  if (tokens > config_.tables.max_tokens) {
    throw Error{kBadArg, "a step must have at most " + std::to_string(config_.tables.max_tokens) + " tokens, got " +
                             std::to_string(tokens)};
  }
  if (num_known != known.size) {
    throw Error{kBadArg, "known must have " + std::to_string(num_known) + " tokens, got " + std::to_string(known.size)};
  }
}

}  // namespace blockstep
