#include "group_census.h"

namespace blockstep {

std::vector<u8> GroupCensus::groups_of() const {
  std::vector<u8> groups(config_.pool.num_blocks, kNoGroup);
  for (u32 id = 1; id < config_.pool.num_blocks; ++id) {
    const Block& block = state_.blocks[id];
    if (block.flags & kPublished) groups[id] = static_cast<u8>(group_of(block));
  }
  each_place([&](u32 g, u32 id) {
    if (id != kNullBlock) groups[id] = static_cast<u8>(g);
  });
  return groups;
}

std::vector<GroupCount> GroupCensus::count() const {
  std::vector<GroupCount> counts(rows_.num_groups());
  const std::vector<u8> groups = groups_of();
  for (u32 id = 1; id < config_.pool.num_blocks; ++id) {
    const Block& block = state_.blocks[id];
    if (block.flags & kPublished) counts[group_of(block)].cached += 1;
    if (block.ref != 0 && groups[id] != kNoGroup) counts[groups[id]].used += 1;
  }
  each_place([&](u32 g, u32 id) { counts[g].nulls += id == kNullBlock; });
  for (u32 g = 0; g < rows_.num_groups(); ++g) counts[g].dropped = rows_.num_dropped(g);
  return counts;
}

}  // namespace blockstep
