#include "device_gather.h"

#include <algorithm>
#include <string>

#include "../requests/check_frame.h"
#include "host_gather.h"

namespace blockstep {

const blockstep_tables& DeviceGather::make(u32 max_tokens) {
  const TablesShape shape = tables_shape(config_, max_tokens);
  Mirror* const mirror = mirrored_.mirror();
  if (!mirror) throw Error{kCuda, "the state of this core is on the host alone, so there are no tables on a GPU"};
  if (!gatherer_) {
    // One slot per frame: a step in flight holds a frame, and there is one more frame than steps in
    // flight.
    const GatherLimits limits{config_.num_frames};
    gatherer_ = std::make_unique<Gatherer>(mirror->device(), shape, config_.block_size, limits);
  } else if (gatherer_->shape().max_tokens != max_tokens) {
    throw Error{kBadArg, "maxTokens must be " + std::to_string(gatherer_->shape().max_tokens) +
                             ", as when the tables were made, got " + std::to_string(max_tokens)};
  }
  return gatherer_->tables().descriptor();
}

Gatherer& DeviceGather::gatherer() const {
  if (!gatherer_) throw Error{kBadArg, "the core has no tables on a GPU: make them first"};
  return *gatherer_;
}

void DeviceGather::gather(const Frame& frame, u32 num_entries, std::optional<u64> stream) {
  Gatherer& gatherer = this->gatherer();
  mirrored_.admit(stream);
  check_frame(frame, 0, num_entries, table_);
  if (config_.groups.empty()) check_gather(frame, num_entries, gatherer.shape().max_tokens, table_);
  else check_gather(frame, num_entries, gatherer.shape().max_tokens, table_, state_, config_);
  const bool same = std::all_of(frame.scheduled, frame.scheduled + num_entries,
                                [&](std::int32_t scheduled) { return scheduled == frame.scheduled[0]; });
  const bool has_groups = !config_.groups.empty();
  gatherer.begin(num_entries, same && num_entries != 0 ? static_cast<u32>(frame.scheduled[0]) : 0);
  for (u32 e = 0; e < num_entries; ++e) {
    const Slot& slot = table_[static_cast<u32>(frame.slots[e])];
    const auto computed = static_cast<u32>(frame.computed[e]);
    const auto scheduled = static_cast<u32>(frame.scheduled[e]);
    const u32 known = known_tokens(slot, computed, scheduled);
    gatherer.add(slot.row, computed, scheduled, has_groups ? longest_row(slot) : slot.num_blocks, slot.tokens + computed, known);
  }
  Mirror* const mirror = mirrored_.mirror();
  condition_.ask_mirror([&] {
    const Gatherer::Join join = [&](u32 room, const Mirror::Give& give) { return mirror->join(room, give); };
    gatherer.launch(stream, [&] {
      mirror->submit();
      return mirror->all_given();
    }, join);
  });
}

/// Places of the longest row of a slot, with KV cache groups.
u32 DeviceGather::longest_row(const Slot& slot) const {
  const auto groups = static_cast<u32>(config_.groups.size());
  u32 longest = 0;
  for (u32 g = 0; g < groups; ++g) longest = std::max(longest, state_.rows[slot.row * groups + g].num_blocks);
  return longest;
}

void DeviceGather::read(Table which, void* out) {
  Gatherer& gatherer = this->gatherer();
  condition_.ask_mirror([&] { gatherer.tables().read(which, out); });
}

}  // namespace blockstep
