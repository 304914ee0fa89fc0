// FactLog: the state of a core on the host, and the log of facts. The state changes only through this log.
//
// A change is built as a log, item by item. commit() applies the log, keeps it if the core records, and passes it to
// the mirror.
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

  /// Starts an empty log. Drops items that an operation left behind when it threw.
  void begin();
  /// The log that is being built.
  LogWriter& log() { return log_; }
  /// Whether the log that is being built must publish this block, which the slot of a row counts as unpublished. If so,
  /// the caller adds the publication. The block may be published after all: a block that two rows share can be evicted
  /// through one row and published again through the other.
  bool needs_publication(u32 id) {
    const Block& block = state_.blocks[id];
    if (block.flags & kPublished) return false;
    return block.ref == 1 || claim(id);
  }
  /// Applies the log that was built. The operation has checked everything before, so a fault means that a check is
  /// wrong, and poisons the core.
  void commit();

  /// Applies a log that the device wrote and that refusal() has passed. It does not go to the mirror, because the
  /// mirror's device has applied it already.
  Results follow(const u32* log, u32 words) {
    ref_changes_ += 1;
    return apply_log(log, words);
  }

  /// Another number wherever the references to a block that a row holds, or the number of rows in use, may have changed.
  u64 ref_changes() const { return ref_changes_; }

  /// What is told of the prefix cache. Whoever logs a publication announces it there first.
  KvEvents& events() { return events_; }

  /// Writes the counts that TypeScript reads without a call to the control area.
  void publish_counts();

  void record(bool on) { recording_ = on; }
  /// The recorded logs, one after the other, each behind its length in words.
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
  Memory ids_memory_;  // where apply() writes the ids it takes; one log takes at most all blocks
  LogWriter log_;
  std::vector<u32> claimed_;  // shared blocks that the log being built publishes
  KvEvents events_;
  u64 ref_changes_ = 1;
  bool recording_ = false;
  std::vector<u32> recorded_;
};

}  // namespace blockstep
