// GroupRows: the rows that each request holds, one for each KV cache group. It knows which places of a row a request needs,
// lets the others go, and publishes full blocks. The rules are vLLM's: each function names the one that it follows.
#pragma once

#include <vector>

#include "../requests/slots.h"
#include "retention.h"

namespace blockstep {

/// One group's part of a request.
/// Invariants: places before `first` of the row are null, and `settled` <= `length`. In groups other than kMambaAlign no other
/// place is null.
struct GroupPart {
  u32 length = 0;      // places of the row, null ones included
  u32 first = 0;
  u32 settled = 0;     // leading places that are done with publishing
  u32 tail = 0;        // tokens up to which the block was published in which the prompt ends; 0: it was not, or is full by now
  u32 last = kNone;    // kMambaAlign: the place of the state that the last extension began behind
  bool grown = false;  // kMambaAlign: was extended since it was opened
};

/// Which blocks a plan has let go so far, before its log is applied.
class DropLedger {
 public:
  explicit DropLedger(u32 num_blocks) : dropped_(num_blocks, 0) {}
  /// Notes that a row lets the block go. Returns whether nobody holds it then.
  bool note(const State& state, u32 id) {
    touched_.push_back(id);
    return state.blocks[id].ref == ++dropped_[id];
  }
  void clear() {
    for (u32 id : touched_) dropped_[id] = 0;
    touched_.clear();
  }

 private:
  std::vector<u32> dropped_;  // [num_blocks]
  std::vector<u32> touched_;
};

/// A range of places of one row.
struct Places {
  u32 from;
  u32 count;
};

/// How a row grows: null places, blocks that move behind them, and blocks that are taken.
struct Growth {
  u32 nulls = 0;   // places between the old end and the moved blocks
  u32 moved = 0;   // blocks that move there, from place `moved_from` on
  u32 moved_from = 0;
  u32 taken = 0;
};

class GroupRows {
 public:
  GroupRows(const HostConfig& config, const Exchange& exchange, FactLog& facts, Slots& slots);
  GroupRows(const GroupRows&) = delete;
  GroupRows& operator=(const GroupRows&) = delete;

  u32 num_groups() const { return num_groups_; }
  const GroupConfig& group(u32 g) const { return config_.groups[g]; }
  /// Tokens of which every group has whole blocks.
  u32 alignment() const { return retention_.alignment(); }

  GroupPart& part(u32 slot, u32 g) { return parts_[std::size_t{slot} * num_groups_ + g]; }
  /// The row of a group of a slot that holds rows.
  u32 row_of(const Slot& slot, u32 g) const { return slot.row * num_groups_ + g; }
  const u32* list_of(const Slot& slot, u32 g) const { return blocks_of(state_, row_of(slot, g)); }
  u32 index_of(const Slot& slot) const { return static_cast<u32>(&slot - slots_.table().slots()); }

  /// Leading tokens that no later token needs after `computed` ones (vLLM get_num_skipped_tokens).
  u32 skipped_tokens(u32 g, u32 computed) const;
  /// Leading places that no token needs after `computed` ones.
  u32 skipped(u32 g, u32 computed) const { return skipped_tokens(g, computed) / config_.groups[g].block_size; }
  /// Places that a row must have for `tokens` tokens, those of drafts included; see GroupNeed.
  u32 places_for(u32 g, u32 tokens) const;

  void note_prompt(u32 slot, u32 tokens) { ends_of(slot).prompt = tokens; }
  void note_junction(u32 slot, u32 tokens) { ends_of(slot).junction = tokens; }
  u32 junction(u32 slot) { return ends_of(slot).junction; }
  /// Opens the parts of a slot that gets its rows.
  void open(u32 slot);
  /// The places of a row that `processed` tokens let go (vLLM remove_skipped_blocks): a range, and in kMambaAlign perhaps one
  /// more place, which then stands in `extra`.
  Places to_drop(const Slot& slot, u32 g, u32 processed, u32& extra) const;
  /// Logs that the row lets these places go.
  void log_drop(const Slot& slot, u32 g, Places places, u32 extra);
  /// Places that rows of the group let go so, since the core was made.
  u64 num_dropped(u32 g) const { return num_dropped_[g]; }
  /// Notes the blocks in these places for take_dropped(). Call it before log_drop().
  void note_dropped(const Slot& slot, u32 g, Places places, u32 extra);
  /// What was noted since begin_step(), in the order in which it was let go: slot, block, group, place and generation of the block in turn.
  std::vector<u32> take_dropped();
  /// How the row grows to hold `slots` tokens, of which `main` are no drafts (vLLM allocate_new_blocks). `places`: of the row,
  /// behind it nothing was dropped yet.
  Growth growth(const GroupPart& part, u32 g, u32 slots, u32 main) const;
  /// Logs the null places and the moves of a growth.
  void log_moves(const Slot& slot, u32 g, const Growth& growth);
  /// Brings the part up to date with a growth that was applied.
  void grow(GroupPart& part, u32 g, const Growth& growth);

  /// Publishes the full blocks of the first `tokens` tokens in all groups (vLLM cache_blocks).
  /// @throws std::bad_alloc
  void publish(Slot& slot, u32 tokens);
  /// Computes `room` and `publish_at` of the slot: thresholds below which no group needs or fills a block.
  void refresh(Slot& slot);
  /// Logs the release of all rows of the slot, if it has any.
  void release(Slot& slot);
  /// Drops the keys of the blocks that have KV of the tokens from `tokens` on, at once.
  void evict(Slot& slot, u32 tokens);

  /// Mamba states that were published since begin_step(): they do not exist before the step ran.
  bool is_noted(u32 g, const Key& key) const;
  void begin_step() {
    noted_.clear();
    dropped_.clear();
  }

  /// As Slots::shared_prefix, by group.
  u32 shared_prefix(const Slot& slot, u32 g) const;
  /// Writes kGroupCommonPrefix for the slot in kHeadSlot.
  void publish_common_prefix() const;

  /// Blocks that were taken for groups with `zeroed` since the last call, group by group. They are noted by note_taken().
  std::vector<u32> take_zeroed();
  void note_taken(const Slot& slot, u32 g, u32 count);

  /// Null, or which invariant is broken.
  const char* verify();

 private:
  struct Noted {
    Key key;
    u32 group;
  };

  void publish_tail(const Slot& slot, u32 g, GroupPart& part, u32 publishable);
  u64 next_publication(u32 g, const GroupPart& part, const LikelyEnds& ends) const;

  LikelyEnds& ends_of(u32 slot) {
    if (ends_.size() <= slot) ends_.resize(slot + std::size_t{1});
    return ends_[slot];
  }

  const HostConfig& config_;
  const Exchange& exchange_;
  FactLog& facts_;
  State& state_;
  Slots& slots_;
  const u32 num_groups_;
  const Retention retention_;
  std::vector<GroupPart> parts_;  // [slots][num_groups]
  std::vector<LikelyEnds> ends_;  // [slots]
  std::vector<Noted> noted_;
  std::vector<std::vector<u32>> zeroed_;  // [num_groups]
  std::vector<u32> dropped_;
  std::vector<u64> num_dropped_;  // [num_groups]
};

}  // namespace blockstep
