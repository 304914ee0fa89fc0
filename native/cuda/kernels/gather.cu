#include "gather.h"

#include <cuda/atomic>

#include "fetch.cuh"
#include "launch.cuh"

namespace blockstep::cuda {
namespace {

constexpr u32 kWarpsOfBlock = kThreads / 32;

__device__ u32 thread_of_grid() { return blockIdx.x * kThreads + threadIdx.x; }
__device__ u32 threads_of_grid() { return gridDim.x * kThreads; }

/// The parts of a message. host/device/device_tables.h describes them.
struct Message {
  __device__ Message(const GatherHead& its_head, const u32* words)
      : head(its_head), rows(words), computed(rows + head.num_entries), starts(computed + head.num_entries),
        ids(starts + (head.uniform ? 0 : head.num_entries)) {}

  /// Index of the first token of an entry. For entry num_entries it is the number of tokens.
  __device__ u32 start(u32 entry) const {
    if (head.uniform) return entry * head.uniform;
    return entry < head.num_entries ? starts[entry] : head.num_tokens;
  }

  /// The entry that a token belongs to: the last one that begins at or before it.
  __device__ u32 entry_of(u32 token) const {
    if (head.uniform) return token / head.uniform;
    u32 low = 0;
    u32 high = head.num_entries;
    while (high - low > 1) {
      const u32 middle = low + (high - low) / 2;
      (starts[middle] <= token ? low : high) = middle;
    }
    return low;
  }

  const GatherHead& head;
  const u32* rows;
  const u32* computed;
  const u32* starts;
  const u32* ids;
};

/// One thread per token writes the slot of its KV and its id. Behind the tokens, padding overwrites what the last
/// gather wrote.
__device__ void write_tokens(const GatherSite& site, const Message& message) {
  const GatherHead& head = message.head;
  const u32 end = head.num_tokens > head.last_tokens ? head.num_tokens : head.last_tokens;
  for (u32 token = thread_of_grid(); token < end; token += threads_of_grid()) {
    std::int64_t slot = -1;
    std::int32_t id = -1;
    if (token < head.num_tokens) {
      const u32 entry = message.entry_of(token);
      const u32 position = message.computed[entry] + (token - message.start(entry));
      const u32* blocks = site.row_blocks + u64{message.rows[entry]} * site.max_blocks_per_row;
      slot = std::int64_t{blocks[position / site.block_size]} * site.block_size + position % site.block_size;
      id = static_cast<std::int32_t>(message.ids[token]);
    }
    site.at.slot_mapping[token] = slot;
    site.at.input_ids[token] = id;
  }
}

/// One thread per entry, and one for the word behind the entries. The padding of the query starts is the number of
/// tokens, so all of it is written again if the number of tokens has changed.
__device__ void write_counts(const GatherSite& site, const Message& message) {
  const GatherHead& head = message.head;
  const u32 used = head.num_entries > head.last_entries ? head.num_entries : head.last_entries;
  const u32 last = head.num_tokens == head.last_tokens ? used : site.max_entries;
  for (u32 entry = thread_of_grid(); entry <= last; entry += threads_of_grid()) {
    const bool is_entry = entry < head.num_entries;
    const u32 start = is_entry ? message.start(entry) : head.num_tokens;
    site.at.query_start[entry] = static_cast<std::int32_t>(start);
    if (entry >= used) continue;
    const u32 computed = is_entry ? message.computed[entry] : 0;
    const u32 scheduled = is_entry ? message.start(entry + 1) - start : 0;
    site.at.seq_lens[entry] = static_cast<std::int32_t>(computed + scheduled);
    site.at.num_computed[entry] = static_cast<std::int32_t>(computed);
  }
}

/// One warp per segment of a row of the block table writes the block ids that do not stand there yet, and padding over
/// those that the last gather left behind them. While a residency lasts, blocks are only appended to its row.
__device__ void write_blocks(const GatherSite& site, const Message& message) {
  const GatherHead& head = message.head;
  const RowContent* before = site.contents + u64{head.number % 2} * site.max_entries;
  RowContent* after = site.contents + u64{(head.number + 1) % 2} * site.max_entries;
  const u32 entries = head.num_entries > head.last_entries ? head.num_entries : head.last_entries;
  const u32 lane = threadIdx.x % 32;
  const u32 units = entries * head.segments;  // 2^31 at most
  for (u32 unit = blockIdx.x * kWarpsOfBlock + threadIdx.x / 32; unit < units; unit += gridDim.x * kWarpsOfBlock) {
    const u32 entry = unit % entries;
    const u32 segment = unit / entries;
    RowContent old{0, 0};
    if (entry < head.last_entries) old = before[entry];
    RowContent now{0, 0};
    const u32* blocks = nullptr;
    if (entry < head.num_entries) {
      const u32 row = message.rows[entry];
      now = {u64{row} << 32 | site.rows[row].generation, site.rows[row].num_blocks};
      blocks = site.row_blocks + u64{row} * site.max_blocks_per_row;
      if (segment == 0 && lane == 0) after[entry] = now;
    }
    const u32 kept = old.residency != now.residency ? 0 : old.width < now.width ? old.width : now.width;
    const u32 wide = old.width > now.width ? old.width : now.width;
    const u32 first = segment * kSegmentBlocks;
    const u32 end = wide < first + kSegmentBlocks ? wide : first + kSegmentBlocks;
    std::int32_t* target = site.at.block_table + u64{entry} * site.max_blocks_per_row;
#pragma unroll 4
    for (u32 i = (kept > first ? kept : first) + lane; i < end; i += 32) {
      target[i] = i < now.width ? static_cast<std::int32_t>(blocks[i]) : 0;
    }
  }
}

/// The work of the whole grid. The last thread block that ends completes the gather.
__device__ void gather(const GatherSite& site, const GatherHead& head, const u32* words) {
  const Message message(head, words);
  write_counts(site, message);
  write_tokens(site, message);
  write_blocks(site, message);
  __syncthreads();
  if (threadIdx.x != 0) return;
  ::cuda::atomic_ref<u32, ::cuda::thread_scope_device> ended(*site.ended);
  if (ended.fetch_add(1, ::cuda::memory_order_acq_rel) != gridDim.x - 1) return;
  ended.store(0, ::cuda::memory_order_relaxed);
  complete(site.completion, head.number, 0, 0);
}

template <u32 Words>
__global__ void __launch_bounds__(kThreads) gather_value(const __grid_constant__ GatherSite site,
                                                         const __grid_constant__ GatherLetter<Words> letter) {
  gather(site, letter.head, letter.words);
}

__global__ void __launch_bounds__(kThreads) gather_staged(const __grid_constant__ GatherSite site,
                                                          const __grid_constant__ GatherHead head, const u32* words) {
  gather(site, head, words);
}

/// Copies a long message from its slot, kFetchWords per thread block. So it crosses the bus once, however often it is
/// read.
__global__ void __launch_bounds__(kThreads) fetch_message(u32* to, const u32* mapped, u64 words) {
  const u64 first = u64{blockIdx.x} * kFetchWords;
  const u64 left = words - first;
  fetch(to + first, mapped + first, left < kFetchWords ? static_cast<u32>(left) : kFetchWords);
}

}  // namespace

const GatherKernels& gather_kernels() {
  static const GatherKernels all{address(&gather_value<kSmallGatherWords>), address(&gather_value<kLargeGatherWords>),
                                 address(&gather_staged), address(&fetch_message)};
  return all;
}

}  // namespace blockstep::cuda
