// The exchange buffer, which TypeScript and native code share. src/core/exchange.ts documents its layout; both files
// must agree.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// Words of the control area. TypeScript writes the first two, and native code the others; native code also sets
/// kNumPending back when it has drained the pending area.
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
  kControlWords = 64
};

/// Operations that TypeScript leaves in the pending area. Each is two words: op << 24 | slot, and the argument.
enum class PendingOp : u32 { kAppend = 1, kPublish, kRelease, kClose, kEvict, kTruncate, kRewind };
constexpr u32 kSlotBits = 0xffffff;

/// The arrays of one plan, max_entries words each. TypeScript writes the first three, native code the last two.
struct Frame {
  const std::int32_t* slots;
  const std::int32_t* scheduled;
  const std::int32_t* computed;
  std::int32_t* num_blocks;
  std::int32_t* new_blocks;
};
constexpr u32 kFrameArrays = 5;

/// Where the parts of one exchange buffer lie. The addon makes sure that the memory is valid whenever the core is
/// called.
class Exchange {
 public:
  Exchange(std::int32_t* words, u32 pending_capacity, u32 max_entries)
      : words_(words), pending_capacity_(pending_capacity), max_entries_(max_entries) {}

  static u64 words_needed(u32 pending_capacity, u32 num_frames, u32 max_entries) {
    return kControlWords + u64{2} * pending_capacity + u64{num_frames} * kFrameArrays * max_entries;
  }

  std::int32_t& control(Control word) const { return words_[word]; }
  std::int32_t* pending() const { return words_ + kControlWords; }
  u32 pending_capacity() const { return pending_capacity_; }

  Frame frame(u32 index) const {
    std::int32_t* base = pending() + u64{2} * pending_capacity_ + u64{index} * kFrameArrays * max_entries_;
    const u64 n = max_entries_;
    return {base, base + n, base + 2 * n, base + 3 * n, base + 4 * n};
  }

 private:
  std::int32_t* words_;
  u32 pending_capacity_;
  u32 max_entries_;
};

}  // namespace blockstep
