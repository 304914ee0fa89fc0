// The gather, and its arguments. A grid fills the tables of a step from the rows of the state.
#pragma once

#include <cstddef>

#include "../../core/base/state.h"
#include "../../host/device/device_tables.h"
#include "../base/shape.h"
#include "kernels.h"

namespace blockstep::cuda {

/// Maximum number of thread blocks of a gather. Thread blocks share the work, so additional ones
/// would only wait for a place on the GPU.
constexpr u32 kMaxGatherBlocks = 256;

/// Words of a long message that one thread block fetches from the host: the maximum of its
/// outstanding reads.
constexpr u32 kFetchWords = kThreads * 8 * 4;

/// The tables of one KV cache group.
struct GroupSite {
  GroupTables at;
  RowContent* contents;  // [2][max_entries] see GatherSite
  u32 block_size;
  u32 max_blocks_per_row;
  u32 moves;  // GroupShape::moves
  u32 reserved;
};

/// Shared state of the thread blocks of a gather. Initially zero.
struct GatherCounts {
  u32 ended;    // thread blocks that have ended; zero between gathers
  u32 begun;    // of a gather with a log: thread blocks that have begun; zero between gathers
  u32 applied;  // the last gather whose log a thread block has applied
};

/// Addresses that a gather reads and writes. All of them are in device memory, except the
/// completion.
struct GatherSite {
  Tables at;
  union {
    /// [2][max_entries] the content of each row of the block table. Gathers alternate between the
    /// halves: a gather reads the half that the last gather wrote, and writes the other half. No
    /// thread block therefore reads another thread block's writes.
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

/// A message as arguments of a launch. CUDA copies it into the launch, so it need not outlive the
/// call.
template <u32 Words>
struct GatherLetter {
  GatherHead head;
  u32 words[Words];
};
static_assert(sizeof(GatherSite) + sizeof(GatherHead) == kGatherParameterHead);
static_assert(sizeof(GatherSite) + sizeof(GatherLetter<kSmallGatherWords>) == 4096);
static_assert(sizeof(GatherSite) + sizeof(GatherLetter<kLargeGatherWords>) == 32764);

/// A log and the following gather as the parameter of one launch.
template <u32 Words>
struct alignas(16) JointLetter {
  Site site;
  u32 number;  // number of the log; the gather's number is in its head
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

/// Addresses of the kernels, for cudaLaunchKernel(). gather.cu defines their arguments. Tables of
/// KV cache groups have separate kernels, so that other tables do not pay for groups.
struct GatherKernels {
  const void* small;
  const void* large;
  const void* staged;
  const void* fetch;
  const void* joint_small;
  const void* joint_large;
};
const GatherKernels& gather_kernels(bool with_groups);

/// Number of thread blocks for a gather, at most kMaxGatherBlocks. It suffices for one thread per
/// token and block list, one thread per word of the query starts, and one warp per row segment.
inline u32 gather_blocks(const GatherHead& head, u32 max_entries, u32 num_lists = 1) {
  const auto most = [](u64 a, u64 b) { return a > b ? a : b; };
  const u64 threads = most(most(head.num_tokens, head.last_tokens) * num_lists, u64{max_entries} + 1);
  const u64 warps = most(head.num_entries, head.last_entries) * head.segments * num_lists;
  const u64 blocks = (most(threads, warps * 32) + kThreads - 1) / kThreads;
  return blocks < kMaxGatherBlocks ? static_cast<u32>(blocks) : kMaxGatherBlocks;
}

}  // namespace blockstep::cuda
