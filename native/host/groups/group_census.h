// GroupCensus: the KV cache group of each block of the pool, and the counts of each group. For
// users: no step needs it.
#pragma once

#include <vector>

#include "group_rows.h"

namespace blockstep {

/// The counts of one group's blocks and places.
struct GroupCount {
  u64 used = 0;     // blocks with references; a block that rows share counts once
  u64 cached = 0;   // blocks that are published for the group, including free blocks
  u64 nulls = 0;    // empty places of rows
  // Number of blocks that rows dropped since the core was made, because no later token reads them.
  u64 dropped = 0;
};

class GroupCensus {
 public:
  /// In the result of groups_of(): the block belongs to no group.
  static constexpr u8 kNoGroup = 255;

  GroupCensus(const HostConfig& config, const FactLog& facts, const Slots& slots, GroupRows& rows)
      : config_(config), state_(facts.state()), slots_(slots), rows_(rows) {}
  GroupCensus(const GroupCensus&) = delete;
  GroupCensus& operator=(const GroupCensus&) = delete;

  /// [num_blocks] The group whose row holds the block. For a block that no row holds, the group
  /// that it is published for.
  /// @throws std::bad_alloc
  std::vector<u8> groups_of() const;
  /// [num_groups] The cost grows with the pool and with the places of all rows. @throws
  /// std::bad_alloc
  std::vector<GroupCount> count() const;

 private:
  /// Calls visit(group, block) for every place of every row, with kNullBlock for an empty place.
  template <class Visit>
  void each_place(Visit visit) const {
    const RequestTable& table = slots_.table();
    for (u32 index = 0; index < table.size(); ++index) {
      const Slot& slot = table[index];
      if (!table.is_open(index) || slot.row == kNone) continue;
      for (u32 g = 0; g < rows_.num_groups(); ++g) {
        const u32* list = rows_.list_of(slot, g);
        for (u32 i = 0; i < rows_.part(index, g).length; ++i) visit(g, list[i]);
      }
    }
  }

  const HostConfig& config_;
  const State& state_;
  const Slots& slots_;
  GroupRows& rows_;
};

}  // namespace blockstep
