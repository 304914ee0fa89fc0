// HostGather: the tables of each frame in host memory, and the gather that fills them.
#pragma once

#include <algorithm>
#include <vector>

#include "../requests/slots.h"
#include "../tables/tables.h"

namespace blockstep {

/// Number of the `scheduled` tokens after `computed` tokens that the request table knows. These
/// come first. The others are still to be sampled.
inline u32 known_tokens(const Slot& slot, u32 computed, u32 scheduled) {
  return slot.num_tokens > computed ? std::min(scheduled, slot.num_tokens - computed) : 0;
}

/// The sizes of the tables of a core.
inline TablesShape tables_shape(const HostConfig& config, u32 max_tokens) {
  TablesShape shape{max_tokens, config.max_entries, config.pool.max_blocks_per_row};
  for (const GroupConfig& group : config.groups) {
    shape.groups[shape.num_groups++] = {group.block_size, config.most_places(group), group.type == GroupType::kMambaAlign};
  }
  if (shape.num_groups != 0) shape.max_blocks_per_row = shape.groups[0].max_blocks_per_row;
  return shape;
}

class HostGather {
 public:
  HostGather(const HostConfig& config, const FactLog& facts, const Slots& slots)
      : config_(config), state_(facts.state()), table_(slots.table()), tables_(config.num_frames) {}

  /// Bytes of the tables of one frame.
  u64 bytes(u32 max_tokens) const { return tables_bytes(tables_shape(config_, max_tokens)); }
  /// Binds a frame to memory for its tables: bytes() bytes, zeroed and aligned to 8. @throws Error
  /// kBadArg if the frame is bound already
  void bind(u32 frame, void* base, u32 max_tokens);
  /// Fills the tables of frame `index` with its first `num_entries` entries. All entries are
  /// checked before any entry is written. @throws Error kBadArg, kBadSlot, kNoRow
  void gather(u32 index, const Frame& frame, u32 num_entries);

 private:
  // Groups: whether there are KV cache groups. Without groups, the code for groups is compiled out.
  template <bool Groups>
  u32 gather_entries(FrameTables& tables, const Frame& frame, u32 num_entries) const;
  template <bool Groups>
  void gather_entry(FrameTables& tables, const Frame& frame, u32 entry, u32 token) const;
  void gather_groups(FrameTables& tables, const Slot& slot, u32 entry, u32 token) const;

  const HostConfig& config_;
  const State& state_;
  const RequestTable& table_;
  std::vector<FrameTables> tables_;  // [num_frames]
};

}  // namespace blockstep
