// Retention: which places of a group's rows are published to the prefix cache, and when they are
// complete.
#pragma once

#include <algorithm>
#include <numeric>

#include "../base/config.h"

namespace blockstep {

/// Positions, in tokens, where prompts are likely to diverge. Hits that end there are worth their
/// blocks.
struct LikelyEnds {
  u32 prompt = 0;    // tokens of the request's prompt
  u32 junction = 0;  // end of the longest lookup of one spec if beyond the hit; else 0
};

class Retention {
 public:
  explicit Retention(const HostConfig& config) : config_(config) {
    for (const GroupConfig& group : config.groups) alignment_ = std::lcm(alignment_, group.block_size);
  }

  /// Least number of tokens that fills whole blocks in every group.
  u32 alignment() const { return alignment_; }

  /// Whether a place is published once it is complete.
  bool publishes(u32 g, u32 place, const LikelyEnds& ends) const {
    return config_.retention == kRetainAll ? !is_masked(g, place) : is_kept(g, place, ends);
  }

  /// Number of the group's first `tokens` computed tokens that may be published. Hits end where
  /// blocks of all groups end.
  u32 publishable(u32 g, u32 tokens) const {
    const u32 whole = config_.groups.size() > 1 ? tokens / alignment_ * alignment_ : tokens;
    // A drafter's lookup matches one block behind the hit.
    const bool behind = config_.retention != kRetainAll && config_.groups[g].eagle && whole > 0;
    return behind ? std::min(tokens, whole + config_.groups[g].block_size) : whole;
  }

  /// End of the last hash of a prompt, in tokens, if it is inside a block that is nevertheless
  /// published; else 0. No lookup finds such a block. But with a key, it is queued behind blocks
  /// without a key (vLLM cache_partial_block).
  u32 tail(u32 g, const LikelyEnds& ends) const {
    const GroupConfig& group = config_.groups[g];
    if (!(config_.group_fixes & kPromptTails) || !group.full() || config_.groups.size() == 1) return 0;
    const u32 end = ends.prompt / config_.block_size * config_.block_size;
    return end % group.block_size == 0 ? 0 : end;
  }

  /// The number of computed tokens at which `tokens` tokens are publishable().
  u64 publishes_at(u32 g, u64 tokens) const {
    if (config_.groups.size() == 1) return tokens;
    const auto aligned = [&](u64 count) { return (count + alignment_ - 1) / alignment_ * alignment_; };
    if (config_.retention == kRetainAll || !config_.groups[g].eagle) return aligned(tokens);
    return std::max({tokens, u64{alignment_}, aligned(tokens - config_.groups[g].block_size)});
  }

 private:
  static u32 divide_up(u32 a, u32 b) { return (a + b - 1) / b; }

  /// Whether a place is never published. No lookup can accept it, because hits end where blocks of
  /// all groups end (vLLM reachable_block_mask of sliding windows, of 2026-05).
  bool is_masked(u32 g, u32 place) const {
    const GroupConfig& group = config_.groups[g];
    if (group.type != GroupType::kSliding || group.block_size >= alignment_) return false;
    const u32 segment = alignment_ / group.block_size;
    const u32 tail = divide_up(group.window - 1, group.block_size);
    if (tail >= segment) return false;
    // A drafter's lookup matches one block behind the hit, which is the first block of the next
    // segment.
    const bool matched = group.eagle && (config_.group_fixes & kShiftMasks) && place % segment == 0;
    return place % segment < segment - tail && !matched;
  }

  /// Whether a place is published if retention is selective (vLLM reachable_block_mask since
  /// retention intervals).
  bool is_kept(u32 g, u32 place, const LikelyEnds& ends) const {
    const GroupConfig& group = config_.groups[g];
    const bool dense = config_.retention == kRetainReachable;
    if (group.type != GroupType::kSliding && (!group.mamba() || dense)) return true;
    // A drafter's lookup matches one block behind the hit. A state is a hit itself.
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
