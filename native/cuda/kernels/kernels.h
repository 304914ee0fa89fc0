// The kernels on a state, and their arguments. One thread block applies one log. decide.h has the
// kernels that decide.
#pragma once

#include "../../host/device/device.h"
#include "../../host/device/self_test.h"
#include "decide.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// The data of the kernels. It lies in device memory, and each launch gets its address.
struct Home {
  State state;              // its arrays are in device memory
  u32* ids;                 // [num_blocks] block ids that the last log took
  u32* staging;             // [slot_words] copy of a log that arrived in a slot
  Completion* completions;  // [max_logs] in mapped memory, at their address for the GPU
  Completion* digest;
  u64 digest_sum;           // sum over the completed thread blocks of a digest
  u32 digest_parts;         // number of completed thread blocks of a digest
  u32 live[kParts];         // live places in each part of the free queue
  Desk desk;
};

/// Addresses and sizes that a kernel needs before it has read any memory.
struct Site {
  Home* home;
  const Row* rows;
  const u32* row_blocks;
  const u32* buckets;
  const Block* blocks;
  const u32* ring;
  const u32* live;
  u32 num_rows;
  u32 max_blocks_per_row;
  u32 num_blocks;
  u32 num_groups;
  u32 bucket_mask;
  u32 ring_mask;
};

/// The site of a state whose arrays are on the GPU.
inline Site site_of(const State& state, Home* home) {
  const Config& config = state.config;
  return {home,        state.rows,         state.row_blocks,          state.buckets,     state.blocks,
          state.ring,  state.live,         config.num_rows,           config.max_blocks_per_row, config.num_blocks,
          config.num_groups, state.bucket_mask, state.ring_mask};
}

/// A log, or a batch, as the parameter of a launch. CUDA copies it into the launch, so it need not
/// outlive the call.
template <u32 Words>
struct alignas(16) Letter {
  Site site;
  u32 number;
  u32 slot;
  u32 words;
  u32 reserved;
  u32 log[Words];
};
/// Maximum number of words of a log in a parameter of 8 KB. The launch copies the whole parameter.
constexpr u32 kMiddleWords = (8192 - kParameterHead) / 4;
static_assert(sizeof(Site) + 16 == kParameterHead && kMiddleWords % 4 == 0);
static_assert(sizeof(Letter<kSmallWords>) == 4096 && sizeof(Letter<kMiddleWords>) == 8192);
static_assert(sizeof(Letter<kLargeWords>) <= 32764);

/// Addresses of the kernels, for cudaLaunchKernel(). kernels.cu defines their arguments.
struct Kernels {
  // By the size of the letter. Short letters have two kernels: one is only for logs of common
  // commands, and is half as long.
  const void* apply_common_small;
  const void* apply_common_middle;
  const void* apply_small;
  const void* apply_middle;
  const void* apply_large;
  const void* apply_slot;
  const void* initialise;
  const void* count_parts;
  const void* digest_parts;
  const void* answer_mailbox;
};
const Kernels& kernels();

}  // namespace blockstep::cuda
