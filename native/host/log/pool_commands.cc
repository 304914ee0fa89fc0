#include "pool_commands.h"

#include <algorithm>
#include <string>

namespace blockstep {

void PoolCommands::check(Span<const std::int32_t> ids) const {
  const u32 num_blocks = state_.config.num_blocks;
  for (u32 i = 0; i < ids.size; ++i) {
    if (ids.data[i] >= 1 && static_cast<u32>(ids.data[i]) < num_blocks) continue;
    throw Error{kBadArg, "a block id must be from 1 to " + std::to_string(num_blocks - 1) + ", got " +
                             std::to_string(ids.data[i]) + " at index " + std::to_string(i)};
  }
}

void PoolCommands::commit(Op op, Span<const std::int32_t> ids) {
  facts_.begin();
  for (u32 i = 0; i < ids.size; ++i) facts_.log().list(op, static_cast<u32>(ids.data[i]));
  facts_.commit();
  facts_.publish_counts();
}

void PoolCommands::pin(Span<const std::int32_t> ids) {
  constexpr u32 kMostPins = 0x7fffffff;  // far below the overflow of a 32-bit count
  for (u32 i = 0; i < ids.size; ++i) {
    const auto pins = state_.blocks[ids.data[i]].ref;
    if (pins < kMostPins - ids.size) continue;
    throw Error{kLimit, "block " + std::to_string(ids.data[i]) + " must have fewer than " + std::to_string(kMostPins) +
                            " pins, has " + std::to_string(pins) + " and gets " + std::to_string(ids.size)};
  }
  commit(Op::kPin, ids);
}

void PoolCommands::unpin(Span<const std::int32_t> ids) {
  std::vector<std::int32_t> sorted(ids.data, ids.data + ids.size);
  std::sort(sorted.begin(), sorted.end());
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto last = std::upper_bound(first, sorted.end(), *first);
    const u32 pins = state_.blocks[*first].pins;
    if (last - first > static_cast<std::ptrdiff_t>(pins)) {
      throw Error{kNotPinned, "block " + std::to_string(*first) + " must have the pins that it loses: it has " + std::to_string(pins) +
                                  " and loses " + std::to_string(last - first)};
    }
    first = last;
  }
  commit(Op::kUnpin, ids);
}

bool PoolCommands::reset() {
  if (state_.num_free != state_.config.num_blocks - 1 - state_.config.num_kept) return false;
  facts_.begin();
  facts_.log().reset();
  facts_.commit();
  facts_.publish_counts();
  return true;
}

}  // namespace blockstep
