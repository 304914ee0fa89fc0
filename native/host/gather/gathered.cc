// The part of a core that has to do with the tables on a device: gather(), but by the device and out of its own rows.
#include <algorithm>

#include "../core.h"

namespace blockstep {

const blockstep_tables& HostCore::make_device_tables(u32 max_tokens) {
  require_sound();
  const TablesShape shape{max_tokens, config_.max_entries, config_.pool.max_blocks_per_row};
  if (!mirror_) throw Error{kCuda, "the state of this core is on the host alone, so there are no tables on a GPU"};
  if (!gatherer_) {
    // One more than steps can be in flight, as for logs: a frame is what a step takes.
    gatherer_ = std::make_unique<Gatherer>(mirror_->device(), shape, config_.block_size, GatherLimits{config_.num_frames});
  } else if (gatherer_->shape().max_tokens != max_tokens) {
    throw Error{kBadArg, "maxTokens must be " + std::to_string(gatherer_->shape().max_tokens) +
                             ", as when the tables were made, got " + std::to_string(max_tokens)};
  }
  return gatherer_->tables().descriptor();
}

Gatherer& HostCore::gatherer() const {
  if (!gatherer_) throw Error{kBadArg, "the core has no tables on a device"};
  return *gatherer_;
}

void HostCore::gather_on_device(u32 frame_index, u32 num_entries, std::optional<u64> stream) {
  begin_change();
  drain();
  Gatherer& gatherer = this->gatherer();
  const Frame frame = exchange_.frame(frame_index);
  check_frame(frame, 0, num_entries);
  check_gather(frame, num_entries, gatherer.shape().max_tokens);
  const bool same = std::all_of(frame.scheduled, frame.scheduled + num_entries,
                                [&](std::int32_t scheduled) { return scheduled == frame.scheduled[0]; });
  gatherer.begin(num_entries, same && num_entries != 0 ? static_cast<u32>(frame.scheduled[0]) : 0);
  for (u32 e = 0; e < num_entries; ++e) {
    const Slot& slot = table_[static_cast<u32>(frame.slots[e])];
    const auto computed = static_cast<u32>(frame.computed[e]);
    const auto scheduled = static_cast<u32>(frame.scheduled[e]);
    const u32 known = known_tokens(slot, computed, scheduled);
    gatherer.add(slot.row, computed, scheduled, slot.num_blocks, slot.tokens + computed, known);
  }
  ask_mirror([&] {
    gatherer.launch(stream, [&] {
      mirror_->submit();
      return mirror_->all_given();
    });
  });
}

void HostCore::read_device_table(Table which, void* out) {
  require_sound();
  Gatherer& gatherer = this->gatherer();
  ask_mirror([&] { gatherer.tables().read(which, out); });
}

}  // namespace blockstep
