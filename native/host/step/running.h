// The running requests of a step: which of them need blocks or fill some, and the log that gives them what they need.
#pragma once

#include <vector>

#include "../requests/slots.h"

namespace blockstep {

/// An entry of a frame that needs more than the two comparisons.
struct RunningWork {
  u32 entry;
  u32 slot;
  u32 take;        // blocks to take
  u32 publish_to;  // leading blocks of the row that are to be published
};

class Running {
 public:
  Running(const HostConfig& config, FactLog& facts, Slots& slots)
      : config_(config), facts_(facts), slots_(slots), table_(slots.table()) {
    work_.reserve(config.max_entries);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// Gives the entries [from, to) their blocks, up to the first that does not fit into the free ones, and publishes the
  /// blocks that they fill. The frame was checked. Returns how many entries that were. @throws Error kBadSlot, kNoRow,
  /// kBadArg, std::bad_alloc; nothing is changed
  u32 run(const Frame& frame, u32 from, u32 to);

  /// Finds the entries that need anything: work(). Returns the first entry that does not fit into `left` blocks, or
  /// `to`. None gets room for more than `limit` tokens. Changes nothing but marks. @throws as run()
  u32 plan(const Frame& frame, u32 from, u32 to, u32 limit, u64 left);
  const std::vector<RunningWork>& work() const { return work_; }
  /// Notes what one of work() holds now that its blocks are there.
  void settle(const RunningWork& work, const Frame& frame);
  /// The plan is done with.
  void forget();

 private:
  bool plan_entry(u32 entry, u32 slot, u32 target, u32 full_tokens, u64& left);
  void finish(const Frame& frame);

  const HostConfig& config_;
  FactLog& facts_;
  Slots& slots_;
  RequestTable& table_;
  std::vector<RunningWork> work_;  // the slot of each is marked
};

}  // namespace blockstep
