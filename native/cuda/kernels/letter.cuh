// How a kernel handles a log or a batch that arrived as its parameter: it stages the words, and
// prefetches the memory that they name.
#pragma once

#include "../../core/base/command.h"
#include "../../core/blocks/apply.h"
#include "../../core/blocks/prefix_index.h"
#include "cta_team.cuh"
#include "kernels.h"
#include "launch.cuh"

namespace blockstep::cuda {

/// Number of commands of a log that are prefetched. The memory of later commands arrives while
/// these are carried out.
constexpr u32 kForeseen = 6;

// All threads of the thread block, kMembers in number, call each of these functions.

/// Copies the words of a letter to shared memory. Synchronises.
template <u32 kMembers = kThreads>
__device__ inline void stage(u32* to, const u32* words, u32 count) {
  const uint4* source = through_memory(reinterpret_cast<const uint4*>(words));
  uint4* target = reinterpret_cast<uint4*>(to);
  BLOCKSTEP_ROLLED
  for (u32 i = threadIdx.x; i < (count + 3) / 4; i += kMembers) target[i] = source[i];
  __syncthreads();
}

/// Prefetches the row of each entry, the bucket of each key, and the block of each hit. A cold read
/// takes most of a microsecond, and after another kernel all reads are cold.
template <u32 kMembers = kThreads>
__device__ inline void foresee_log(const Site& site, const u32* log, u32 words) {
  const u32 rank = threadIdx.x;
  const auto row = [&](u32 index) {
    if (index < site.num_rows) prefetch(site.rows + index);
  };
  u32 at = 0;
  BLOCKSTEP_ROLLED
  for (u32 command = 0; command < kForeseen && at < words; ++command) {
    const u32 count = count_of(log[at]);
    const u32 length = payload_words(log[at]);
    if (length >= words - at) return;
    const u32* payload = log + at + 1;
    const Op op = op_of(log[at]);
    BLOCKSTEP_ROLLED
    for (u32 i = rank; i < count; i += kMembers) {
      if (op == Op::kExtend) row(payload[2 * i]);
      if (op == Op::kRelease) row(payload[i]);
      if (op == Op::kOpen && payload[1 + i] < site.num_blocks) prefetch(site.blocks + payload[1 + i]);
      if (op == Op::kPublish && payload[i * kPublishWords] < site.num_rows) {
        const u32* entry = payload + i * kPublishWords;
        const u32 group = entry[0] % site.num_groups;
        prefetch(site.buckets + bucket_index(key_at(entry + 2), group, site.bucket_mask));
        if (entry[1] < site.max_blocks_per_row) prefetch(site.row_blocks + u64{entry[0]} * site.max_blocks_per_row + entry[1]);
      }
    }
    if (op == Op::kOpen && rank == 0) row(payload[0]);
    at += length + 1;
  }
}

/// The start of the free queue. It is loaded before the log is staged and used afterwards, so that
/// no thread waits for it at the barrier in between.
__device__ inline u64 queue_head(const Site& site) { return site.home->state.head; }

/// Prefetches the head of the free queue, and the blocks there. The last warp does this, because
/// the first warps prefetch the rows.
template <u32 kMembers = kThreads>
__device__ inline void foresee_queue(const Site& site, u64 head) {
  if constexpr (kMembers > 32) {
    if (threadIdx.x < kMembers - 32) return;
  }
  const u32 at = static_cast<u32>(head + threadIdx.x % 32) & site.ring_mask;
  prefetch(site.live + at / 32);
  const u32 id = site.ring[at];
  if (id < site.num_blocks) prefetch(site.blocks + id);
}

/// Applies a log by one thread block, and completes it.
template <Order kOrder, bool kAll>
__device__ void apply_log(Home* home, u32 number, u32 slot, const u32* log, u32 words) {
  __shared__ CtaTeam::Shared shared;
  CtaTeam team(shared);
  Results results{home->ids, home->state.config.num_blocks, 0, 0, 0};  // one per thread
  apply<kAll ? Ops::kAll : Ops::kCommon>(team, home->state, log, words, results);
  if (team.rank() == 0) complete<kOrder>(home->completions + slot, number, results.fault, home->state.rolling_digest);
}

/// Applies the log of a letter, which is staged in `staged`.
template <bool kAll>
__device__ void apply_staged(const Site& site, u32 number, u32 slot, u32* staged, const u32* log, u32 words) {
  const u64 head = queue_head(site);
  stage(staged, log, words);
  foresee_queue(site, head);
  foresee_log(site, staged, words);
  // Relaxed, because the host reads only the completion, and writes no memory that was read here.
  apply_log<Order::kRelaxed, kAll>(site.home, number, slot, staged, words);
}

}  // namespace blockstep::cuda
