// GroupConfig: a KV cache group, that is layers of a model which share one table of blocks.
#pragma once

#include "../../core/base/state.h"

namespace blockstep {

/// What a token of a group's layers needs of the tokens before it. MLA and sinks need what full attention needs.
enum class GroupType : u32 { kFull, kSliding, kChunked, kMambaNone, kMambaAll, kMambaAlign };

struct GroupConfig {
  GroupType type;
  u32 block_size;    // tokens per block: 1 .. 2^16, a multiple of HostConfig::block_size
  u32 window;        // kSliding: tokens that a token attends to, itself included; >= 1
  u32 chunk;         // kChunked: a token attends to no token of an earlier chunk of so many tokens; >= 1
  u32 spare_blocks;  // Mamba: blocks for the states of draft tokens
  u32 most_blocks;   // an admission is not tested for more places than these; 0: no limit (vLLM's admission cap)
  u32 spec;          // groups of one spec are looked up together; specs are numbered in the order of their first groups
  bool eagle;        // holds layers of a drafter: the last block of a prefix hit does not count
  u32 unsettled;     // what no token needs is let go as many tokens later, which drafts may take back
  bool zeroed;       // blocks are listed when they are taken, so that the executor can zero them

  bool full() const { return type == GroupType::kFull; }
  bool mamba() const { return type >= GroupType::kMambaNone; }
};

/// In HostConfig::retention: all places but those that no hit could end behind; or, by the rules of 2026-08, all that a hit could use.
constexpr u32 kRetainAll = ~u32{0};
constexpr u32 kRetainReachable = kRetainAll - 1;

/// Faults of vLLM in the lookup of several groups that can be mended.
enum GroupFix : u32 {
  kCutAllFull = 1u << 0,   // all groups of full attention are cut to the hit, not only those of the first spec
  kShiftMasks = 1u << 1,   // with a drafter, the places that the lookup accepts are published, not those in front of them
  kChunkHits = 1u << 2,    // a hit of chunks that ends inside a chunk has that chunk's blocks, also where it was shortened into the chunk
  kDropStates = 1u << 3,   // kMambaAlign lets go of every state in front of that which is needed, not only of the last one
  kLoadNeeded = 1u << 4,   // a group that needs none of the loaded tokens takes no block for them, also where they are less than a block
  kPromptTails = 1u << 5,  // no fault, but a rule: full attention publishes the block in which a prompt's last hash ends, also if it is not full
};

}  // namespace blockstep
