// The gather, and what it is launched with. A grid fills the tables of a step from the rows of the state.
#pragma once

#include <cstddef>

#include "../../core/base/state.h"
#include "../../host/device/device_tables.h"
#include "../base/shape.h"
#include "kernels.h"

namespace blockstep::cuda {

/// The most thread blocks of a gather. Thread blocks share the work, so more of them would only wait for a place on the
/// GPU.
constexpr u32 kMaxGatherBlocks = 256;

/// Words of a long message that one thread block fetches from the host: as many as it can have under way at once.
constexpr u32 kFetchWords = kThreads * 8 * 4;

/// The tables of one KV cache group.
struct GroupSite {
  GroupTables at;
  RowContent* contents;  // [2][max_entries], see GatherSite
  u32 block_size;
  u32 max_blocks_per_row;
  u32 moves;  // GroupShape::moves
  u32 reserved;
};

/// What the thread blocks of a gather tell each other. Zero at first.
struct GatherCounts {
  u32 ended;    // thread blocks that have ended; zero between gathers
  u32 begun;    // of a gather with a log: thread blocks that have begun; zero between gathers
  u32 applied;  // the last gather whose log was applied by one of its thread blocks
};

/// Addresses of everything that a gather reads and writes. All of it is in device memory, except the completion.
struct GatherSite {
  Tables at;
  union {
    /// [2][max_entries] what each row of the block table holds. Gathers use the halves in turn: a gather reads the half
    /// that the last gather wrote, and writes the other half. So no thread block reads what another thread block writes.
    RowContent* contents;  // without KV cache groups
    const GroupSite* groups;  // [num_groups], with them
  };
  const Row* rows;
  const u32* row_blocks;
  GatherCounts* counts;
  Completion* completion;
  u32 max_entries;
  u32 max_blocks_per_row;  // of the rows of the state; without groups also of the block table
  u32 block_size;          // without groups
  u32 num_groups;          // 0: no KV cache groups
};

/// A message as arguments of a launch. CUDA copies it into the launch, so it need not outlive the call.
template <u32 Words>
struct GatherLetter {
  GatherHead head;
  u32 words[Words];
};
static_assert(sizeof(GatherSite) + sizeof(GatherHead) == kGatherParameterHead);
static_assert(sizeof(GatherSite) + sizeof(GatherLetter<kSmallGatherWords>) == 4096);
static_assert(sizeof(GatherSite) + sizeof(GatherLetter<kLargeGatherWords>) == 32764);

/// A log and the gather behind it as the parameter of one launch.
template <u32 Words>
struct alignas(16) JointLetter {
  Site site;
  u32 number;  // of the log; that of the gather is in its head
  u32 slot;
  u32 log_words;
  u32 message_at;  // index of the first word of the message: joint_message_at(log_words)
  GatherSite gather;
  GatherHead head;
  u32 reserved[3];
  u32 words[Words];
};
static_assert(offsetof(JointLetter<kSmallJointWords>, words) == kJointHead);
static_assert(sizeof(JointLetter<kSmallJointWords>) <= 4096 && sizeof(JointLetter<kLargeJointWords>) <= 32764);

/// Addresses of the kernels, for cudaLaunchKernel(). gather.cu has their arguments. Tables of KV cache groups have kernels of
/// their own, so that groups cost nothing where there are none.
struct GatherKernels {
  const void* small;
  const void* large;
  const void* staged;
  const void* fetch;
  const void* joint_small;
  const void* joint_large;
};
const GatherKernels& gather_kernels(bool with_groups);

/// Number of thread blocks for a gather: enough for one thread per token and list of blocks, one per word of the query starts,
/// and one warp per segment of a row; at most kMaxGatherBlocks.
inline u32 gather_blocks(const GatherHead& head, u32 max_entries, u32 num_lists = 1) {
  const auto most = [](u64 a, u64 b) { return a > b ? a : b; };
  const u64 threads = most(most(head.num_tokens, head.last_tokens) * num_lists, u64{max_entries} + 1);
  const u64 warps = most(head.num_entries, head.last_entries) * head.segments * num_lists;
  const u64 blocks = (most(threads, warps * 32) + kThreads - 1) / kThreads;
  return blocks < kMaxGatherBlocks ? static_cast<u32>(blocks) : kMaxGatherBlocks;
}

}  // namespace blockstep::cuda
