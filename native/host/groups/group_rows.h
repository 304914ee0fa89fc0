// GroupRows: the rows of each request, one for each KV cache group. It knows which places of a row
// a request needs, drops the other blocks, and publishes full blocks. The rules are vLLM's, and
// each function names the vLLM function that it follows.
#pragma once

#include <vector>

#include "../requests/slots.h"
#include "retention.h"

namespace blockstep {

/// One group's part of a request. Invariants: places before `first` of the row are empty, and
/// `settled` <= `length`. In groups other than kMambaAlign no other place is empty.
struct GroupPart {
  u32 length = 0;      // places of the row, including empty places
  u32 first = 0;
  u32 settled = 0;     // leading places that need no further publication
  // Tokens covered by the published block in which the prompt ends; 0: not published, or full by
  // now.
  u32 tail = 0;
  u32 last = kNone;    // kMambaAlign: the place of the state before the last extension
  bool grown = false;  // kMambaAlign: was extended since it was opened
};

/// The blocks that a plan has dropped so far, before its log is applied.
class DropLedger {
 public:
  explicit DropLedger(u32 num_blocks) : dropped_(num_blocks, 0) {}
  /// Notes that the row drops the block. Returns whether the block then has no references.
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

/// The growth of a row: empty places, blocks that move behind them, and taken blocks.
struct Growth {
  u32 nulls = 0;   // places between the old end and the moved blocks
  u32 moved = 0;   // blocks that move there, starting with place `moved_from`
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
  /// Least number of tokens that fills whole blocks in every group.
  u32 alignment() const { return retention_.alignment(); }

  GroupPart& part(u32 slot, u32 g) { return parts_[std::size_t{slot} * num_groups_ + g]; }
  /// The row of a group of a slot that holds rows.
  u32 row_of(const Slot& slot, u32 g) const { return slot.row * num_groups_ + g; }
  const u32* list_of(const Slot& slot, u32 g) const { return blocks_of(state_, row_of(slot, g)); }
  u32 index_of(const Slot& slot) const { return static_cast<u32>(&slot - slots_.table().slots()); }

  /// Number of leading tokens that no token needs after the first `computed` tokens (vLLM
  /// get_num_skipped_tokens).
  u32 skipped_tokens(u32 g, u32 computed) const;
  /// Number of leading places that no token needs after the first `computed` tokens.
  u32 skipped(u32 g, u32 computed) const { return skipped_tokens(g, computed) / config_.groups[g].block_size; }
  /// Number of places that a row must have for `tokens` tokens, including drafts. See GroupNeed.
  u32 places_for(u32 g, u32 tokens) const;

  void note_prompt(u32 slot, u32 tokens) { ends_of(slot).prompt = tokens; }
  void note_junction(u32 slot, u32 tokens) { ends_of(slot).junction = tokens; }
  u32 junction(u32 slot) { return ends_of(slot).junction; }
  /// Opens the parts of a slot whose rows are being opened.
  void open(u32 slot);
  /// The places that a row drops after `processed` tokens (vLLM remove_skipped_blocks): a range,
  /// and in kMambaAlign perhaps one more place, which is written to `extra`.
  Places to_drop(const Slot& slot, u32 g, u32 processed, u32& extra) const;
  /// Logs that the row drops the blocks in these places.
  void log_drop(const Slot& slot, u32 g, Places places, u32 extra);
  /// Number of places that rows of the group dropped in this way, since the core was made.
  u64 num_dropped(u32 g) const { return num_dropped_[g]; }
  /// Notes the blocks in these places for drain_dropped(). Call it before log_drop().
  void note_dropped(const Slot& slot, u32 g, Places places, u32 extra);
  /// The notes since begin_step(), in the order of the drops: slot, block, group, place and
  /// generation of the block in turn.
  std::vector<u32> drain_dropped();
  /// The growth of a row to hold `slots` tokens, of which `main` are no drafts (vLLM
  /// allocate_new_blocks). No place behind the end of the row was dropped yet.
  Growth growth(const GroupPart& part, u32 g, u32 slots, u32 main) const;
  /// Logs the empty places and the moves of a growth.
  void log_moves(const Slot& slot, u32 g, const Growth& growth);
  /// Updates the part after a growth was applied.
  void grow(GroupPart& part, u32 g, const Growth& growth);

  /// Publishes the full blocks of the first `tokens` tokens in all groups (vLLM cache_blocks).
  /// @throws std::bad_alloc
  void publish(Slot& slot, u32 tokens);
  /// Computes `room` and `publish_at` of the slot: thresholds below which no group needs or fills a
  /// block.
  void refresh(Slot& slot);
  /// Logs the release of all rows of the slot, if it has any.
  void release(Slot& slot);
  /// Drops at once the keys of the blocks that contain KV of the tokens from `tokens` on.
  void evict(Slot& slot, u32 tokens);

  /// Mamba states that were published since begin_step(). They do not exist before the step has
  /// run.
  bool is_noted(u32 g, const Key& key) const;
  void begin_step() {
    noted_.clear();
    dropped_.clear();
  }

  /// Like Slots::shared_prefix, by group.
  u32 shared_prefix(const Slot& slot, u32 g, u32 known) const;
  /// Writes kGroupCommonPrefix for the slot in kHeadSlot. Counts on as Slots::publish_common_prefix().
  void publish_common_prefix();

  /// Blocks that were taken for groups with `zeroed` since the last call, group by group.
  /// note_taken() notes them.
  std::vector<u32> drain_zeroed();
  void note_taken(const Slot& slot, u32 g, u32 count);

  /// Returns null, or the name of a broken invariant.
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
  /// The last count of publish_common_prefix(), with its head slot and its FactLog::ref_changes().
  struct {
    u64 ref_changes = 0;
    u32 head = kNone;
    std::vector<u32> shared;  // [num_groups]
  } counted_;
};

}  // namespace blockstep
