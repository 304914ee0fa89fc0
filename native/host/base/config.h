// HostConfig: the configuration of a core. The addon has checked the ranges.
#pragma once

#include <vector>

#include "group_config.h"

namespace blockstep {

/// Who decides which blocks a request gets: the host, or the device. If the device decides, the host follows.
enum class Authority : u32 { kHost, kDevice };

/// What a core tells of its prefix cache (events/kv_events.h): nothing; what is new there; in addition, which blocks a
/// request found there.
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
  bool kv_events_by_block = false;  // each block is told, also where another one has the same key
  /// KV cache groups; empty: one group of full attention, with blocks of block_size tokens. With groups, block_size is how many
  /// tokens a block hash covers: a divisor of the block sizes of all groups.
  std::vector<GroupConfig> groups = {};
  /// Which places of windows and states are published: kRetainAll, kRetainReachable, or a multiple of the least common multiple of all block
  /// sizes: those that hits need which end at such multiples, at the end of a prompt, or where prompts part. 0: at those ends alone.
  u32 retention = kRetainAll;
  /// Which of vLLM's faults are mended, and one of its rules (GroupFix).
  u32 group_fixes = 0;

  /// The most places of a row of a group.
  u32 most_places(const GroupConfig& group) const {
    return (max_model_len + group.block_size - 1) / group.block_size + group.spare_blocks;
  }

  /// How many blocks `tokens` tokens need.
  u32 blocks_for(u32 tokens) const { return (tokens + block_size - 1) / block_size; }
};

}  // namespace blockstep
