// The methods of HostCore for KV cache groups.
#include <string>

#include "core.h"

namespace blockstep {

void HostCore::require_groups(const char* call) const {
  if (groups_) [[likely]] return;
  throw Error{kBadArg, std::string(call) + " needs a core with kvGroups, and this core has none"};
}

void HostCore::begin_step() {
  condition_.begin_change();
  require_groups("beginStep");
  pending_.drain();
  groups_->rows.begin_step();
}

u32 HostCore::match_groups(u32 slot, u32 max_tokens) {
  require_groups("matchGroups");
  pending_.drain();
  return groups_->admissions.match(slot, max_tokens);
}

std::int32_t HostCore::admit_groups(u32 slot, const GroupAdmission& asked) {
  condition_.require_sound();
  require_groups("admitGroups");
  pending_.drain();
  return groups_->admissions.admit(slot, asked);
}

u64 HostCore::needed_groups(u32 slot, const GroupAdmission& asked, NeededBlocks& by_group) {
  condition_.require_sound();
  require_groups("neededGroups");
  pending_.drain();
  return groups_->admissions.needed(slot, asked, &by_group);
}

void HostCore::common_prefix_groups() {
  require_groups("commonPrefixGroups");
  pending_.drain();
  groups_->rows.publish_common_prefix();
}

void HostCore::drop_groups(u32 index, u32 computed) {
  condition_.require_sound();
  require_groups("dropGroups");
  pending_.drain();
  Slot& slot = slots_.open_slot(index);
  if (slot.row == kNone) return;
  facts_.begin();
  for (u32 g = 0; g < groups_->rows.num_groups(); ++g) {
    u32 extra;
    const Places places = groups_->rows.to_drop(slot, g, computed, extra);
    groups_->rows.log_drop(slot, g, places, extra);
  }
  facts_.commit();
  groups_->rows.refresh(slot);
  facts_.publish_counts();
}

u32 HostCore::junction(u32 slot) {
  require_groups("junction");
  pending_.drain();
  slots_.open_slot(slot);
  return groups_->rows.junction(slot);
}

std::vector<u32> HostCore::drain_zeroed() {
  require_groups("drainZeroed");
  pending_.drain();
  return groups_->rows.drain_zeroed();
}

std::vector<u32> HostCore::drain_dropped() {
  require_groups("drainDropped");
  return groups_->rows.drain_dropped();
}

std::vector<u8> HostCore::groups_of_blocks() {
  require_groups("groupsOfBlocks");
  pending_.drain();
  return groups_->census.groups_of();
}

std::vector<GroupCount> HostCore::count_groups() {
  require_groups("countGroups");
  pending_.drain();
  return groups_->census.count();
}

u32 HostCore::published_group(u32 id) {
  pending_.drain();
  const Block& block = facts_.state().blocks[id];
  return block.flags & kPublished ? group_of(block) : 0;
}

}  // namespace blockstep
