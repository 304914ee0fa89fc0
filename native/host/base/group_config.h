// GroupConfig: a KV cache group, which is a set of layers of a model that share a block table.
#pragma once

#include "../../core/base/state.h"

namespace blockstep {

/// Which earlier tokens a token needs in a group's layers. MLA and sinks have the needs of full
/// attention.
enum class GroupType : u32 { kFull, kSliding, kChunked, kMambaNone, kMambaAll, kMambaAlign };

struct GroupConfig {
  GroupType type;
  u32 block_size;    // tokens per block: 1 .. 2^16, a multiple of HostConfig::block_size
  u32 window;        // kSliding: tokens that a token attends to, including itself; >= 1
  // kChunked: tokens per chunk; a token attends to no token of an earlier chunk; >= 1.
  u32 chunk;
  u32 spare_blocks;  // Mamba: blocks for the states of draft tokens
  // Most places that the test of an admission counts; 0: no limit (vLLM's admission cap).
  u32 most_blocks;
  // Groups of one spec are looked up together; specs are numbered in order of their first groups.
  u32 spec;
  bool eagle;        // has layers of a drafter: the last block of a prefix hit does not count
  // Delay, in tokens, before unneeded blocks are dropped, since drafts may be rejected.
  u32 unsettled;
  bool zeroed;       // taken blocks are listed, so that the executor can zero them

  bool full() const { return type == GroupType::kFull; }
  bool mamba() const { return type >= GroupType::kMambaNone; }
};

/// Values of HostConfig::retention. kRetainAll: all places except those that no hit can end behind.
/// kRetainReachable: by the rules of 2026-08, all places that a hit could use.
constexpr u32 kRetainAll = ~u32{0};
constexpr u32 kRetainReachable = kRetainAll - 1;

/// Faults of vLLM in the lookup of several groups that can be fixed.
enum GroupFix : u32 {
  // The hit cuts all groups of full attention, not only those of the first spec.
  kCutAllFull = 1u << 0,
  // With a drafter, publishes the places that the lookup accepts instead of the places before them.
  kShiftMasks = 1u << 1,
  // A hit that ends inside a chunk has that chunk's blocks, even if it was shortened into the chunk.
  kChunkHits = 1u << 2,
  // kMambaAlign drops every state before the needed state, not only the last one.
  kDropStates = 1u << 3,
  // A group that needs none of the loaded tokens takes no block for them, even if they fill less
  // than a block.
  kLoadNeeded = 1u << 4,
  // A rule, not a fault: full attention publishes the block of a prompt's last hash, even if not
  // full.
  kPromptTails = 1u << 5,
  // Blocks are taken to load into only when the hits of all groups are held.
  kHoldAllHits = 1u << 6,
};

}  // namespace blockstep
