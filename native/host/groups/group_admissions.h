// GroupAdmissions: like Admissions, for requests with rows of several KV cache groups (vLLM
// allocate_slots).
#pragma once

#include <array>
#include <vector>

#include "prefix_search.h"

namespace blockstep {

/// The arguments of an admission, in tokens.
struct GroupAdmission {
  u32 hit;        // result of match(): cached in every group
  // Tokens to load behind the hit; a request with rows may load its only token again.
  u32 external;
  u32 computed;   // computed tokens of a request with rows; 0 with a hit
  u32 in_flight;  // computed tokens of steps in flight, whose windows are kept
  u32 scheduled;  // in this step
  u32 prompt;     // tokens of the prompt, whose end is kept for other requests
  u32 lookahead;  // additional tokens
  u32 reserve;    // the free blocks must suffice for this many tokens; 0: only for the taken blocks
  // Blocks that stay free beside the taken blocks, and beside the reserved tokens.
  u32 spare_blocks;
  u32 reserved_blocks;  // blocks that stay free beside the taken blocks
  bool publishes;
};

/// Blocks, by group.
using NeededBlocks = std::array<u64, kMaxGroups>;

class GroupAdmissions {
 public:
  GroupAdmissions(const HostConfig& config, const Exchange& exchange, FactLog& facts, Slots& slots, GroupRows& rows)
      : config_(config), exchange_(exchange), facts_(facts), state_(facts.state()), slots_(slots), rows_(rows),
        search_(config, facts, slots.table(), rows) {}
  GroupAdmissions(const GroupAdmissions&) = delete;
  GroupAdmissions& operator=(const GroupAdmissions&) = delete;

  /// Number of the first `most` tokens of the slot that are cached in every group. Writes kHitFree.
  /// @throws Error kBadSlot, std::bad_alloc
  u32 match(u32 slot, u32 most);
  void forget_match(u32 slot) {
    if (match_.slot == slot) match_.slot = kNone;
  }
  /// Gives the slot its rows, or more places in them. Returns the row (of the request, not of a
  /// group), or kNotEnoughBlocks or kNoFreeRow. These two change nothing, except that the request
  /// drops unneeded blocks. @throws Error kBadSlot, kBadArg, std::bad_alloc; nothing is changed
  std::int32_t admit(u32 slot, const GroupAdmission& asked);
  /// The answer of needed() for a request whose hit ends with a state that the current step
  /// computes. No pool has so many blocks.
  static constexpr u64 kUnready = ~u64{0};
  /// Blocks that must be free for such an admission, or kUnready. Otherwise `by_group`, if given,
  /// gets the number that each group takes.
  u64 needed(u32 slot, const GroupAdmission& asked, NeededBlocks* by_group = nullptr);

 private:
  /// The answer of the last match(); valid while State::num_commands is `version`.
  struct Match {
    u32 slot = kNone;
    u64 version = 0;
    u32 most = 0;
    u32 hit = 0;
    std::vector<u32> free;  // [num_groups] hits without references
  };

  /// The ends of an admission, in tokens from the start of the request.
  struct Reach {
    u32 computed;  // tokens whose keys and values exist, or will be loaded
    u32 main;      // these tokens after the step
    u32 slots;     // tokens with places after the step, including drafts
    u32 reserve;   // see GroupAdmission
  };

  Reach reach(const GroupAdmission& asked) const;
  bool has_hits(u32 slot, u32 hit);
  void find_again(u32 slot, u32 hit);
  u64 need(u32 slot, u32 g, const Reach& reach, bool whole, bool has_hits) const;
  u64 need_of_all(u32 slot, const Reach& reach, bool whole, bool has_hits, NeededBlocks* by_group = nullptr) const;
  u64 uncounted(const Reach& reach, bool has_hits) const;
  bool is_unready(u32 slot, u32 g) const;
  void tell_reused(const Slot& slot);
  bool make_room(Slot& slot, const Reach& reach, const GroupAdmission& asked);
  void open(Slot& slot, u32 row, const GroupAdmission& asked);
  void take_loaded(const Slot& slot, u32 g, u32 total);
  void grow(Slot& slot, const Reach& reach, bool opened);

  const HostConfig& config_;
  const Exchange& exchange_;
  FactLog& facts_;
  State& state_;
  Slots& slots_;
  GroupRows& rows_;
  PrefixSearch search_;
  Match match_;
  std::vector<u32> ids_;  // ids of a row that is being opened
  std::vector<Growth> growths_{rows_.num_groups()};
};

}  // namespace blockstep
