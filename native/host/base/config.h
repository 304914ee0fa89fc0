// HostConfig: the configuration of a core. The addon has checked the ranges.
#pragma once

#include <vector>

#include "group_config.h"

namespace blockstep {

/// The side that decides which blocks a request gets: the host or the device. If the device
/// decides, the host follows.
enum class Authority : u32 { kHost, kDevice };

/// The reported events of the prefix cache (events/kv_events.h): none, new content, or also the
/// blocks that a request found.
enum class KvReport : u32 { kNothing, kNew, kAll };

struct HostConfig {
  Config pool;
  u32 block_size;        // tokens per block: 1 .. 2^16
  u32 max_entries;       // entries of one frame
  u32 num_frames;
  u32 pending_capacity;  // operations that fit into the pending area of the exchange buffer
  u32 lookahead;         // tokens beyond the scheduled ones to allocate blocks for: 0 .. 2^16
  u32 max_model_len;     // tokens: 1 .. kMaxTokens - 1; they fit in max_blocks_per_row blocks
  bool caching;
  Key seed;
  Authority authority = Authority::kHost;
  KvReport kv_events = KvReport::kNothing;
  bool kv_events_by_block = false;  // report each block, even if another block has the same key
  /// KV cache groups. Empty: one group of full attention, with blocks of block_size tokens. With
  /// groups, a block hash covers block_size tokens, which divides the block sizes of all groups.
  std::vector<GroupConfig> groups = {};
  /// The published places of windows and states: kRetainAll, kRetainReachable, or a multiple of the
  /// least common multiple of all block sizes. Such a number publishes the places that hits need.
  /// These hits end at its multiples, at the end of a prompt, or where prompts diverge. 0: only the
  /// last two ends.
  u32 retention = kRetainAll;
  /// The faults of vLLM that are fixed, and one of its rules (GroupFix).
  u32 group_fixes = 0;

  /// Maximum number of places of a row of a group.
  u32 most_places(const GroupConfig& group) const {
    return (max_model_len + group.block_size - 1) / group.block_size + group.spare_blocks;
  }

  /// Number of blocks for `tokens` tokens.
  u32 blocks_for(u32 tokens) const { return (tokens + block_size - 1) / block_size; }
};

}  // namespace blockstep
