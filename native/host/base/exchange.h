// The exchange buffer, which TypeScript and native code share. src/core/exchange.ts documents its layout; both files
// must agree.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// Words of the control area. TypeScript writes the first two and kNumSampled to kNumAhead, and native code the others;
/// native code also sets kNumPending, kNumSampled and kNumSteady back when it has done what they ask for.
enum Control : u32 {
  kNumPending,
  kHeadSlot,
  kFreeBlocks,
  kPublishedBlocks,
  kRowsInUse,
  kCommonPrefix,
  kEvictionsLow,
  kEvictionsHigh,
  kHitFree,
  kDeciding,
  kKvEventWords,
  kNumSampled,
  kSampledFrame,
  kNumSteady,
  kNumAhead,
  kGroupBlocks = 16,        // [kMaxGroups] places of each group's row after the last admission
  kGroupHits = 24,          // [kMaxGroups] leading places that the prefix cache gave to it
  kGroupCommonPrefix = 32,  // [kMaxGroups] as kCommonPrefix
  kControlWords = 64
};

/// In the sampled area: the entry brings no token, as its request has ended.
constexpr std::int32_t kNoToken = -1;

/// Operations that TypeScript leaves in the pending area. Each is two words: op << 24 | slot, and the argument.
enum class PendingOp : u32 { kAppend = 1, kPublish, kRelease, kClose, kEvict, kTruncate, kRewind };
constexpr u32 kSlotBits = 0xffffff;

/// The arrays of one plan, max_entries words each. TypeScript writes the first four, native code the others: two for each
/// group, those of the first group first.
struct Frame {
  const std::int32_t* slots;
  const std::int32_t* scheduled;
  const std::int32_t* computed;
  const std::int32_t* in_flight;  // of the computed tokens: those that groups keep all for, since a step may still read it
  std::int32_t* num_blocks;
  std::int32_t* new_blocks;
  u64 group_stride;  // words from an array of one group to that of the next
};
constexpr u32 frame_arrays(u32 num_groups) { return 4 + 2 * num_groups; }

/// Where the parts of one exchange buffer lie. The addon makes sure that the memory is valid whenever the core is
/// called.
class Exchange {
 public:
  Exchange(std::int32_t* words, u32 pending_capacity, u32 max_entries, u32 num_groups = 1)
      : words_(words), pending_capacity_(pending_capacity), max_entries_(max_entries), num_groups_(num_groups) {}

  static u64 words_needed(u32 pending_capacity, u32 num_frames, u32 max_entries, u32 num_groups = 1) {
    return kControlWords + u64{2} * pending_capacity + (u64{num_frames} * frame_arrays(num_groups) + 1) * max_entries;
  }

  std::int32_t& control(Control word) const { return words_[word]; }
  /// The word of a group in one of the arrays of the control area.
  std::int32_t& control(Control array, u32 group) const { return words_[array + group]; }
  std::int32_t* pending() const { return words_ + kControlWords; }
  u32 pending_capacity() const { return pending_capacity_; }
  /// The computed tokens of a frame, where native code fills them in.
  std::int32_t* computed(u32 index) const { return arrays(index) + u64{2} * max_entries_; }
  /// The sampled tokens, behind the last frame.
  const std::int32_t* sampled(u32 num_frames) const { return arrays(num_frames); }

  Frame frame(u32 index) const {
    std::int32_t* base = arrays(index);
    const u64 n = max_entries_;
    return {base, base + n, base + 2 * n, base + 3 * n, base + 4 * n, base + 5 * n, 2 * n};
  }

 private:
  /// The first array of a frame.
  std::int32_t* arrays(u32 index) const {
    return pending() + u64{2} * pending_capacity_ + u64{index} * frame_arrays(num_groups_) * max_entries_;
  }

  std::int32_t* words_;
  u32 pending_capacity_;
  u32 max_entries_;
  u32 num_groups_;
};

}  // namespace blockstep
