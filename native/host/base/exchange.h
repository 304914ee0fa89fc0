// The exchange buffer, which TypeScript and native code share. src/core/exchange.ts documents its
// layout. Both files must agree.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// Words of the control area. TypeScript writes the first two and kNumSampled to kNumRepeats. Native
/// code writes the others. It also resets kNumPending, kNumSampled, kNumSteady and kNumRepeats after
/// it has processed the entries.
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
  kNumRepeats,
  kGroupBlocks = 16,        // [kMaxGroups] places of each group's row after the last admission
  kGroupHits = 24,          // [kMaxGroups] leading places from the prefix cache
  kGroupCommonPrefix = 32,  // [kMaxGroups] like kCommonPrefix
  kControlWords = 64
};

/// In the sampled area: the entry has no token, because its request has ended.
constexpr std::int32_t kNoToken = -1;

/// Operations that TypeScript leaves in the pending area. Each is two words: op << 24 | slot, and
/// the argument.
enum class PendingOp : u32 { kAppend = 1, kPublish, kRelease, kClose, kEvict, kTruncate, kRewind };
constexpr u32 kSlotBits = 0xffffff;

/// The arrays of one plan, max_entries words each. TypeScript writes the first four. Native code
/// writes the others: two for each group, starting with the first group.
struct Frame {
  const std::int32_t* slots;
  const std::int32_t* scheduled;
  const std::int32_t* computed;
  // Computed tokens of which groups keep all blocks, because a step may still read them.
  const std::int32_t* in_flight;
  std::int32_t* num_blocks;
  std::int32_t* new_blocks;
  u64 group_stride;  // words from an array of one group to the next group's
};
constexpr u32 frame_arrays(u32 num_groups) { return 4 + 2 * num_groups; }

/// The parts of one exchange buffer. The addon ensures that the memory is valid whenever the core
/// is called.
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
  /// The computed tokens of a frame, which native code can fill in.
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
