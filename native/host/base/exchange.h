// The exchange buffer as native code sees it. src/core/exchange.ts draws its layout; both must agree.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// Words of the control area and what they hold. The first two are written by TypeScript.
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
  kControlWords = 64
};

/// Operations that TypeScript leaves in the pending area: word 0 = op << 24 | slot, word 1 = argument.
enum class PendingOp : u32 { kAppend = 1, kPublish, kRelease, kClose, kEvict, kTruncate, kRewind };
constexpr u32 kSlotBits = 0xffffff;

/// One plan's arrays of max_entries words each. TypeScript writes the first three.
struct Frame {
  const std::int32_t* slots;
  const std::int32_t* scheduled;
  const std::int32_t* computed;
  std::int32_t* num_blocks;
  std::int32_t* new_blocks;
};
constexpr u32 kFrameArrays = 5;

/// The parts of one exchange buffer. The addon makes sure that the memory is there whenever the core is called.
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
