// Slots: the request table, the free rows, and the assignment of rows to slots.
#pragma once

#include "../base/config.h"
#include "../log/fact_log.h"
#include "free_rows.h"
#include "request_table.h"

namespace blockstep {

/// Results of an admission that gives no row.
constexpr std::int32_t kNotEnoughBlocks = -1;
constexpr std::int32_t kNoFreeRow = -2;

/// Invariant, which verify() checks: every row in use belongs to exactly one open slot, and slot
/// and row have the same number of blocks.
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

  /// Returns the slot, which must be open. @throws Error kBadSlot
  Slot& open_slot(u32 index);

  /// Notes the current row and blocks of the slot (kNone: no row), and computes `room` and
  /// `publish_at` from them.
  void set_row(Slot& slot, u32 row, u32 num_blocks, u32 num_published);
  /// Logs the publication of blocks [from, to) of the slot's row. The row has `have` blocks now.
  /// The same log takes the blocks behind them, so no other row can have published those. @throws
  /// std::bad_alloc
  void log_publications(Slot& slot, u32 row, u32 have, u32 from, u32 to);
  /// Logs the release of the slot's row, if it has a row. @throws std::bad_alloc
  void release_row(Slot& slot);
  /// Drops at once the keys of the row's blocks from index `from` on. The blocks stay in the row
  /// and can be published again.
  /// @throws std::bad_alloc
  void evict_row(Slot& slot, u32 from);

  /// Number of leading blocks of the slot that every row in use holds, according to reference
  /// counts, as in vLLM (get_num_common_prefix_blocks).
  /// @param known number of blocks that are known to be shared
  u32 shared_prefix(const Slot& slot, u32 known = 0) const;
  /// Writes the shared prefix of the slot in kHeadSlot to the control word kCommonPrefix, or 0 if
  /// that slot is not open. A steady decode must not check all blocks of a long prefix in each
  /// step. The count therefore continues from its last value while no references change (FactLog).
  void publish_common_prefix();

  /// Returns null, or the name of a broken invariant. @throws std::bad_alloc
  const char* verify() const;

 private:
  const HostConfig& config_;
  const Exchange& exchange_;
  FactLog& facts_;
  State& state_;
  RequestTable table_;
  FreeRows free_rows_;
  /// The last count of publish_common_prefix(), with its head slot and its FactLog::ref_changes().
  struct {
    u64 ref_changes = 0;
    u32 head = kNone;
    u32 shared = 0;
  } counted_;
};

}  // namespace blockstep
