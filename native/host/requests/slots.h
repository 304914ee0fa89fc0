// The slots of a core: the request table, the rows that nobody holds, and which slot holds which row.
#pragma once

#include "../base/config.h"
#include "../log/fact_log.h"
#include "free_rows.h"
#include "request_table.h"

namespace blockstep {

/// Invariant: a row is in use exactly if one open slot names it, and both say the same number of blocks. verify() checks
/// that.
class Slots {
 public:
  Slots(const HostConfig& config, const Exchange& exchange, FactLog& facts)
      : config_(config), exchange_(exchange), facts_(facts), state_(facts.state()),
        table_(config.block_size, config.caching, config.seed), free_rows_(config.pool.num_rows) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  RequestTable& table() { return table_; }
  const RequestTable& table() const { return table_; }
  FreeRows& free_rows() { return free_rows_; }

  /// @throws Error kBadSlot
  Slot& open_slot(u32 index);

  /// Notes what the slot holds now, and the thresholds that follow from it. kNone as the row: nothing.
  void set_row(Slot& slot, u32 row, u32 num_blocks, u32 num_published);
  /// Logs the publication of blocks [from, to) of the slot's row. The row has `have` blocks now; those behind it are
  /// being taken by the same log, so nobody else holds them. @throws std::bad_alloc
  void log_publications(Slot& slot, u32 row, u32 have, u32 from, u32 to);
  /// Logs the release of the slot's row, if it has one. @throws std::bad_alloc
  void release_row(Slot& slot);
  /// The row's blocks from `from` on lose their key. They stay in the row, and can be published again.
  /// @throws std::bad_alloc
  void evict_row(Slot& slot, u32 from);

  /// Leading blocks of the slot that every row in use holds. As in vLLM this goes by the reference counts.
  u32 shared_prefix(const Slot& slot) const;
  /// Shows TypeScript the shared prefix of the slot that it named.
  void publish_common_prefix() const;

  /// Null, or what is broken: slots and rows must say the same. @throws std::bad_alloc
  const char* verify() const;

 private:
  const HostConfig& config_;
  const Exchange& exchange_;
  FactLog& facts_;
  State& state_;
  RequestTable table_;
  FreeRows free_rows_;
};

}  // namespace blockstep
