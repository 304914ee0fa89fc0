// The gather: what it is launched with. A grid fills the tables of a step out of the rows of the state.
#pragma once

#include "../../core/base/state.h"
#include "../../host/device/device_tables.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// The most thread blocks of a gather. They share the work, so further ones would only wait for a place on the GPU.
constexpr u32 kMaxGatherBlocks = 256;

/// Words of a long message that one thread block fetches from the host: what it can have under way at once.
constexpr u32 kFetchWords = kThreads * 8 * 4;

/// Where everything lies that a gather reads and writes: in device memory, except the completion.
struct GatherSite {
  Tables at;
  /// [2][max_entries] what the rows of the block table hold, by turns: a gather reads what the last one left in one half,
  /// and leaves its own in the other. So no thread block reads what another one writes.
  RowContent* contents;
  const Row* rows;
  const u32* row_blocks;
  u32* ended;  // thread blocks that have come to their end; zero between gathers
  Completion* completion;
  u32 max_entries;
  u32 max_blocks_per_row;
  u32 block_size;
  u32 reserved;
};

/// A message that is part of its launch, so that no copy of it has to outlive the call.
template <u32 Words>
struct GatherLetter {
  GatherHead head;
  u32 words[Words];
};
static_assert(sizeof(GatherSite) + sizeof(GatherHead) == kGatherParameterHead);
static_assert(sizeof(GatherSite) + sizeof(GatherLetter<kSmallGatherWords>) == 4096);
static_assert(sizeof(GatherSite) + sizeof(GatherLetter<kLargeGatherWords>) == 32764);

/// The kernels by address, as cudaLaunchKernel() wants them; arguments as gather.cu says.
struct GatherKernels {
  const void* small;
  const void* large;
  const void* staged;
  const void* fetch;
};
const GatherKernels& gather_kernels();

/// Thread blocks for this gather: a thread for each token and each word of the query starts, a warp for each segment.
inline u32 gather_blocks(const GatherHead& head, u32 max_entries) {
  const auto most = [](u64 a, u64 b) { return a > b ? a : b; };
  const u64 threads = most(most(head.num_tokens, head.last_tokens), u64{max_entries} + 1);
  const u64 warps = most(head.num_entries, head.last_entries) * head.segments;
  const u64 blocks = (most(threads, warps * 32) + kThreads - 1) / kThreads;
  return blocks < kMaxGatherBlocks ? static_cast<u32>(blocks) : kMaxGatherBlocks;
}

}  // namespace blockstep::cuda
