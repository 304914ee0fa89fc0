// FactLog: the state of a core on the host, and the log of facts. The state changes only through
// this log.
//
// A change is built as a log, item by item. commit() applies the log, keeps it if the core records,
// and passes it to the mirror.
#pragma once

#include <vector>

#include "../../base/memory.h"
#include "../../core/blocks/apply.h"
#include "../base/condition.h"
#include "../events/kv_events.h"
#include "../mirror/mirrored.h"
#include "log_writer.h"

namespace blockstep {

class FactLog {
 public:
  /// @throws Error kNoMemory, std::bad_alloc
  FactLog(const HostConfig& config, const Exchange& exchange, Condition& condition, Mirrored& mirrored);
  FactLog(const FactLog&) = delete;
  FactLog& operator=(const FactLog&) = delete;

  State& state() { return state_; }
  const State& state() const { return state_; }
  u64 bytes() const { return state_memory_.bytes() + ids_memory_.bytes(); }

  /// Starts an empty log. Drops items left over from an operation that threw.
  void begin();
  /// The current log.
  LogWriter& log() { return log_; }
  /// Whether the current log must publish this block, which counts as unpublished in the slot of a
  /// row. If so, the caller adds the publication. The block may already be published: a block that
  /// two rows share can be evicted through one row and published again through the other.
  bool needs_publication(u32 id) {
    const Block& block = state_.blocks[id];
    if (block.flags & kPublished) return false;
    return block.ref == 1 || claim(id);
  }
  /// Applies the current log. The operation has already checked everything. A fault therefore means
  /// that a check is wrong, and poisons the core.
  void commit();

  /// Applies a log that the device wrote and that has passed refusal(). It does not go to the
  /// mirror, because the mirror's device has already applied it.
  Results follow(const u32* log, u32 words) {
    ref_changes_ += 1;
    return apply_log(log, words);
  }

  /// Changes whenever the references to a block of a row, or the number of rows in use, may have
  /// changed.
  u64 ref_changes() const { return ref_changes_; }

  /// The events of the prefix cache. Code that logs a publication announces it there first.
  KvEvents& events() { return events_; }

  /// Writes to the control area the counts that TypeScript reads without a call.
  void publish_counts();

  void record(bool on) { recording_ = on; }
  /// The recorded logs in order, each preceded by its length in words.
  const std::vector<u32>& recorded() const { return recorded_; }
  void forget_recorded() { recorded_ = {}; }

 private:
  bool claim(u32 id);
  Results apply_log(const u32* log, u32 words);
  void apply_and_tell(const u32* log, u32 words, Results& results);

  const Exchange& exchange_;
  Condition& condition_;
  Mirrored& mirrored_;
  OwnedState state_memory_;
  State& state_;
  Memory ids_memory_;  // ids that apply() takes; one log takes at most all blocks
  LogWriter log_;
  std::vector<u32> claimed_;  // shared blocks that the current log publishes
  KvEvents events_;
  u64 ref_changes_ = 1;
  bool recording_ = false;
  std::vector<u32> recorded_;
};

}  // namespace blockstep
