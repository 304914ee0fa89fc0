// Retention: which places of a group's rows the prefix cache gets, and when they are complete.
#pragma once

#include <algorithm>
#include <numeric>

#include "../base/config.h"

namespace blockstep {

/// Where prompts are likely to go on: ends of hits that are worth their blocks, in tokens.
struct LikelyEnds {
  u32 prompt = 0;    // tokens of the request's prompt
  u32 junction = 0;  // as far as the longest lookup of one spec went, where that is beyond the hit; else 0
};

class Retention {
 public:
  explicit Retention(const HostConfig& config) : config_(config) {
    for (const GroupConfig& group : config.groups) alignment_ = std::lcm(alignment_, group.block_size);
  }

  /// Tokens of which every group has whole blocks.
  u32 alignment() const { return alignment_; }

  /// Whether a place is published when it is complete.
  bool publishes(u32 g, u32 place, const LikelyEnds& ends) const {
    return config_.retention == kRetainAll ? !is_masked(g, place) : is_kept(g, place, ends);
  }

  /// Of `tokens` computed tokens of a group those that may be published: hits end where blocks of all groups end.
  u32 publishable(u32 g, u32 tokens) const {
    const u32 whole = config_.groups.size() > 1 ? tokens / alignment_ * alignment_ : tokens;
    // A drafter's lookup matches one block behind the hit.
    const bool behind = config_.retention != kRetainAll && config_.groups[g].eagle && whole > 0;
    return behind ? std::min(tokens, whole + config_.groups[g].block_size) : whole;
  }

  /// Where the last hash of a prompt ends, in tokens, if that is inside a block that is published nevertheless; else 0. No lookup finds that block
  /// so, but while it has a key it is queued behind those that have none (vLLM cache_partial_block).
  u32 tail(u32 g, const LikelyEnds& ends) const {
    const GroupConfig& group = config_.groups[g];
    if (!(config_.group_fixes & kPromptTails) || !group.full() || config_.groups.size() == 1) return 0;
    const u32 end = ends.prompt / config_.block_size * config_.block_size;
    return end % group.block_size == 0 ? 0 : end;
  }

  /// The computed tokens at which so many tokens are publishable().
  u64 publishes_at(u32 g, u64 tokens) const {
    if (config_.groups.size() == 1) return tokens;
    const auto aligned = [&](u64 count) { return (count + alignment_ - 1) / alignment_ * alignment_; };
    if (config_.retention == kRetainAll || !config_.groups[g].eagle) return aligned(tokens);
    return std::max({tokens, u64{alignment_}, aligned(tokens - config_.groups[g].block_size)});
  }

 private:
  static u32 divide_up(u32 a, u32 b) { return (a + b - 1) / b; }

  /// Whether a place is never published: no lookup can accept it, because hits end where blocks of all groups end (vLLM
  /// reachable_block_mask of sliding windows, of 2026-05).
  bool is_masked(u32 g, u32 place) const {
    const GroupConfig& group = config_.groups[g];
    if (group.type != GroupType::kSliding || group.block_size >= alignment_) return false;
    const u32 segment = alignment_ / group.block_size;
    const u32 tail = divide_up(group.window - 1, group.block_size);
    if (tail >= segment) return false;
    // A drafter's lookup matches one block behind the hit, which is the first of the next segment.
    const bool matched = group.eagle && (config_.group_fixes & kShiftMasks) && place % segment == 0;
    return place % segment < segment - tail && !matched;
  }

  /// Whether a place is published, where what is kept is chosen (vLLM reachable_block_mask since retention intervals).
  bool is_kept(u32 g, u32 place, const LikelyEnds& ends) const {
    const GroupConfig& group = config_.groups[g];
    const bool dense = config_.retention == kRetainReachable;
    if (group.type != GroupType::kSliding && (!group.mamba() || dense)) return true;
    // A drafter's lookup matches one block behind the hit. A state is found as it is.
    const u32 shift = !group.mamba() && group.eagle ? 1 : 0;
    const u32 tail = group.mamba() ? 1 : divide_up(group.window - 1, group.block_size) + shift;
    const u32 span = (dense ? alignment_ : config_.retention) / group.block_size;
    if (span > 0 && (tail >= span || (place >= shift && (place - shift) % span >= span - tail))) return true;
    if (dense) return false;
    const auto in_tail = [&](u32 tokens) {
      const u32 end = tokens / alignment_ * alignment_ / group.block_size + shift;
      return place < end && place + tail >= end;
    };
    return in_tail(ends.prompt - (ends.prompt > 0)) || (ends.junction > 0 && in_tail(ends.junction));
  }

  const HostConfig& config_;
  u32 alignment_ = 1;
};

}  // namespace blockstep
