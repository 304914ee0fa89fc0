// GroupRunning: like Running, for requests with rows of several KV cache groups.
#pragma once

#include <vector>

#include "group_rows.h"

namespace blockstep {

class GroupRunning {
 public:
  GroupRunning(const HostConfig& config, FactLog& facts, Slots& slots, GroupRows& rows)
      : config_(config), facts_(facts), state_(facts.state()), slots_(slots), rows_(rows),
        dropped_(config.pool.num_blocks) {
    filled_.reserve(config.max_entries);
  }
  GroupRunning(const GroupRunning&) = delete;
  GroupRunning& operator=(const GroupRunning&) = delete;

  /// Gives the entries [from, to) of the frame their blocks, drops the blocks that they no longer
  /// need, and publishes the blocks that they fill. Stops before the first entry that the free
  /// blocks do not suffice for. That entry's drops remain. Returns the number of entries before it.
  /// The frame must have passed check_frame(). @throws Error kBadSlot, kNoRow, kBadArg,
  /// std::bad_alloc; nothing is changed
  u32 run(const Frame& frame, u32 from, u32 to);

 private:
  /// The work for one entry in one group.
  struct Work {
    u32 slot;
    u32 entry;
    u32 group;
    Places drop;
    u32 extra;
    Growth growth;
  };

  bool plan(u32 entry, u32 slot, u32 processed, u32 main, u64& left);
  u32 settled_after(const Work& work, const Frame& frame) const;
  void hash_filled(const Frame& frame);
  void log_work(std::size_t from, std::size_t to);
  void carry_out(const Frame& frame);

  const HostConfig& config_;
  FactLog& facts_;
  State& state_;
  Slots& slots_;
  GroupRows& rows_;
  DropLedger dropped_;
  std::vector<Work> work_;
  std::vector<Slot*> filled_;  // scratch of hash_filled()
};

}  // namespace blockstep
