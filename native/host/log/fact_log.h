// The state of a core on the host, and the log of facts, through which alone it changes.
//
// A change is built as a log, item by item; commit() applies that log at once, keeps it when recording, and hands it to
// the mirror.
#pragma once

#include <vector>

#include "../../base/memory.h"
#include "../../core/blocks/apply.h"
#include "../base/condition.h"
#include "../mirror/mirrored.h"
#include "log_writer.h"

namespace blockstep {

class FactLog {
 public:
  /// @throws Error kNoMemory, std::bad_alloc
  FactLog(const Config& pool, const Exchange& exchange, Condition& condition, Mirrored& mirrored);
  FactLog(const FactLog&) = delete;
  FactLog& operator=(const FactLog&) = delete;

  State& state() { return state_; }
  const State& state() const { return state_; }
  u64 bytes() const { return state_memory_.bytes() + ids_memory_.bytes(); }

  /// Starts a log. What an operation that threw has left in it is forgotten.
  void begin();
  /// The log that is being built.
  LogWriter& log() { return log_; }
  /// Is this block of a row, which its holder counts as unpublished, really unpublished? If so the log that is being
  /// built publishes it. A block that two rows share can have been evicted for one of them and published again for the
  /// other.
  bool needs_publication(u32 id) {
    const Block& block = state_.blocks[id];
    if (block.flags & kPublished) return false;
    return block.ref == 1 || claim(id);
  }
  /// Applies the log that was built. Nothing may fail here any more: a fault means that a check before was wrong, and
  /// poisons the core.
  void commit();

  /// Applies a log that the device wrote and check() has let through. It is not sent to the mirror, whose device it is.
  Results follow(const u32* log, u32 words) { return apply_log(log, words); }

  /// Shows TypeScript the counts that it reads without a call.
  void publish_counts();

  void record(bool on) { recording_ = on; }
  /// What was recorded: batches, each with its length in words before it.
  const std::vector<u32>& recorded() const { return recorded_; }
  void forget_recorded() { recorded_ = {}; }

 private:
  bool claim(u32 id);
  Results apply_log(const u32* log, u32 words);

  const Exchange& exchange_;
  Condition& condition_;
  Mirrored& mirrored_;
  OwnedState state_memory_;
  State& state_;
  Memory ids_memory_;  // where apply() puts the ids it takes; at most every block at once
  LogWriter log_;
  std::vector<u32> claimed_;  // shared blocks that the log being built publishes
  bool recording_ = false;
  std::vector<u32> recorded_;
};

}  // namespace blockstep
