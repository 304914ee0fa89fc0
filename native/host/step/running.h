// Running: finds the running requests of a step that need or fill blocks, and gives them their
// blocks.
#pragma once

#include <vector>

#include "../requests/slots.h"

namespace blockstep {

/// An entry of a frame that needs blocks, or fills blocks to publish.
struct RunningWork {
  u32 entry;
  u32 slot;
  u32 take;        // blocks to take
  u32 publish_to;  // number of leading blocks of the row that are published afterwards
};

class Running {
 public:
  Running(const HostConfig& config, FactLog& facts, Slots& slots)
      : config_(config), facts_(facts), slots_(slots), table_(slots.table()) {
    work_.reserve(config.max_entries);
    filled_.reserve(config.max_entries);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// Gives the entries [from, to) of the frame their blocks and publishes the blocks that they
  /// fill. Stops before the first entry that the free blocks do not suffice for. Returns the number
  /// of entries before it. The frame must have passed check_frame(). @throws Error kBadSlot,
  /// kNoRow, kBadArg, std::bad_alloc; nothing is changed
  u32 run(const Frame& frame, u32 from, u32 to);

  /// Finds the entries that need or fill blocks, and lists them in work(). Returns the first entry
  /// that `left` blocks do not suffice for, or `to`. No entry gets room for more than `limit`
  /// tokens. Changes only marks of slots and the last two arrays of the frame. @throws like run()
  u32 plan(const Frame& frame, u32 from, u32 to, u32 limit, u64 left);
  const std::vector<RunningWork>& work() const { return work_; }
  /// Updates the slot and the frame with the new blocks of one entry of work(), which are already
  /// in the state.
  void settle(const RunningWork& work, const Frame& frame);
  /// Forgets work(), and the marks of its slots.
  void forget();

 private:
  bool plan_entry(u32 entry, u32 slot, u32 target, u32 full_tokens, u64& left);
  void hash_filled();
  void finish(const Frame& frame);

  const HostConfig& config_;
  FactLog& facts_;
  Slots& slots_;
  RequestTable& table_;
  std::vector<RunningWork> work_;  // each has a marked slot
  std::vector<Slot*> filled_;      // scratch of hash_filled()
};

}  // namespace blockstep
