// Slots: the request table, the free rows, and which slot holds which row.
#pragma once

#include "../base/config.h"
#include "../log/fact_log.h"
#include "free_rows.h"
#include "request_table.h"

namespace blockstep {

/// Answers of an admission in place of a row.
constexpr std::int32_t kNotEnoughBlocks = -1;
constexpr std::int32_t kNoFreeRow = -2;

/// Invariant, which verify() checks: every row in use belongs to exactly one open slot, and slot and row have the same
/// number of blocks.
class Slots {
 public:
  Slots(const HostConfig& config, const Exchange& exchange, FactLog& facts)
      : config_(config), exchange_(exchange), facts_(facts), state_(facts.state()),
        table_(config.block_size, config.caching, config.seed), free_rows_(config.pool.num_rows / config.pool.num_groups) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  RequestTable& table() { return table_; }
  const RequestTable& table() const { return table_; }
  FreeRows& free_rows() { return free_rows_; }

  /// The slot, which must be open. @throws Error kBadSlot
  Slot& open_slot(u32 index);

  /// Notes the row and blocks that the slot holds now (kNone: no row), and computes `room` and `publish_at` from them.
  void set_row(Slot& slot, u32 row, u32 num_blocks, u32 num_published);
  /// Logs the publication of blocks [from, to) of the slot's row. The row has `have` blocks now. The blocks
  /// behind them are taken by the same log, so no other row can have published them. @throws std::bad_alloc
  void log_publications(Slot& slot, u32 row, u32 have, u32 from, u32 to);
  /// Logs the release of the slot's row, if it has one. @throws std::bad_alloc
  void release_row(Slot& slot);
  /// Drops the keys of the row's blocks from index `from` on, at once. The blocks stay in the row and can be published
  /// again.
  /// @throws std::bad_alloc
  void evict_row(Slot& slot, u32 from);

  /// How many leading blocks of the slot every row in use holds, judged by reference counts as in vLLM
  /// (get_num_common_prefix_blocks).
  /// @param known so many of them are known to be shared
  u32 shared_prefix(const Slot& slot, u32 known = 0) const;
  /// Writes to the control word kCommonPrefix the shared prefix of the slot in kHeadSlot; 0 if that slot is not open.
  /// A steady decode must not look at all blocks of a long head in each step: while no references move (FactLog), the
  /// count goes on where it stood.
  void publish_common_prefix();

  /// Null, or which invariant is broken. @throws std::bad_alloc
  const char* verify() const;

 private:
  const HostConfig& config_;
  const Exchange& exchange_;
  FactLog& facts_;
  State& state_;
  RequestTable table_;
  FreeRows free_rows_;
  /// The last count of publish_common_prefix(), of which head, and at which FactLog::ref_changes().
  struct {
    u64 ref_changes = 0;
    u32 head = kNone;
    u32 shared = 0;
  } counted_;
};

}  // namespace blockstep
