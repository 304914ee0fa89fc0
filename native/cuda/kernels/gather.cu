#include "gather.h"

#include <cuda/atomic>

#include "fetch.cuh"
#include "launch.cuh"
#include "letter.cuh"

namespace blockstep::cuda {
namespace {

using DeviceWord = ::cuda::atomic_ref<u32, ::cuda::thread_scope_device>;

constexpr u32 kWarpsOfBlock = kThreads / 32;

__device__ u32 thread_of_grid() { return blockIdx.x * kThreads + threadIdx.x; }
__device__ u32 threads_of_grid() { return gridDim.x * kThreads; }

/// The parts of a message (host/device/device_tables.h). If each lane of a warp reads a different
/// word, a parameter is read through memory, which serves a line at a time. If all lanes read the
/// same word, it is read through the constant cache.
struct Message {
  __device__ Message(const GatherHead& its_head, const u32* words)
      : head(its_head), rows_of_warps(words), rows(through_memory(words)), computed(rows + head.num_entries),
        starts(computed + head.num_entries), ids(starts + (head.uniform ? 0 : head.num_entries)) {}

  /// Index of the first token of an entry. For entry num_entries it is the number of tokens.
  __device__ u32 start(u32 entry) const {
    if (head.uniform) return entry * head.uniform;
    return entry < head.num_entries ? starts[entry] : head.num_tokens;
  }

  /// The entry of a token: the last entry that begins at or before it.
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
  const u32* rows_of_warps;
  const u32* rows;
  const u32* computed;
  const u32* starts;
  const u32* ids;
};

/// The tables of one block list of each entry, with the same interface with and without KV cache
/// groups.
template <bool Groups>
struct List {
  __device__ List(const GatherSite& its_site, u32 its_index) : site(its_site), index(its_index) {}

  __device__ std::int64_t* slot_mapping() const {
    if constexpr (Groups) return site.groups[index].at.slot_mapping;
    else return site.at.slot_mapping;
  }
  __device__ std::int32_t* block_table(u32 entry) const {
    if constexpr (Groups) return site.groups[index].at.block_table + u64{entry} * site.groups[index].max_blocks_per_row;
    else return site.at.block_table + u64{entry} * site.max_blocks_per_row;
  }
  __device__ RowContent* contents() const {
    if constexpr (Groups) return site.groups[index].contents;
    else return site.contents;
  }
  __device__ u32 block_size() const {
    if constexpr (Groups) return site.groups[index].block_size;
    else return site.block_size;
  }
  /// The state's row for a row in a message.
  __device__ u32 row(u32 in_message) const {
    if constexpr (Groups) return in_message * site.num_groups + index;
    else return in_message;
  }

  const GatherSite& site;
  const u32 index;
};

template <bool Groups>
__device__ u32 num_lists(const GatherSite& site) {
  if constexpr (Groups) return site.num_groups;
  else return 1;
}

/// One thread per token and block list writes the slot of the token's KV. The thread of the first
/// list also writes the token's id. Behind the tokens, padding overwrites the last gather's
/// elements.
template <bool Groups>
__device__ void write_tokens(const GatherSite& site, const Message& message) {
  const GatherHead& head = message.head;
  const u32 end = head.num_tokens > head.last_tokens ? head.num_tokens : head.last_tokens;
  // Fewer than 2^32, because a slot mapping takes eight bytes for each unit.
  const u32 units = end * num_lists<Groups>(site);
  for (u32 unit = thread_of_grid(); unit < units; unit += threads_of_grid()) {
    const List<Groups> list(site, Groups ? unit / end : 0);
    const u32 token = Groups ? unit % end : unit;
    std::int64_t slot = -1;
    std::int32_t id = -1;
    if (token < head.num_tokens) {
      const u32 entry = message.entry_of(token);
      const u32 position = message.computed[entry] + (token - message.start(entry));
      const u32* blocks = site.row_blocks + u64{list.row(message.rows[entry])} * site.max_blocks_per_row;
      const u32 block = blocks[position / list.block_size()];
      // In a group of states a place may be empty.
      if (!Groups || block != kNullBlock) slot = std::int64_t{block} * list.block_size() + position % list.block_size();
      id = static_cast<std::int32_t>(message.ids[token]);
    }
    list.slot_mapping()[token] = slot;
    if (list.index == 0) site.at.input_ids[token] = id;
  }
}

/// One thread per entry, and one for the word behind the entries. The padding of the query starts
/// is the number of tokens, so all of it is written again if the number of tokens has changed.
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

/// Counts the leading empty places of a row, of which `empty` are known. It counts at most one more
/// segment, and a later gather continues from there. A whole warp calls it with the same arguments.
__device__ u32 count_empty(const u32* blocks, u32 width, u32 empty) {
  const u32 lane = threadIdx.x % 32;
  for (const u32 end = empty + kSegmentBlocks; empty < width && empty < end; empty += 32) {
    const u32 held = __ballot_sync(0xffffffffu, empty + lane >= width || blocks[empty + lane] != kNullBlock);
    if (held != 0) return empty + static_cast<u32>(__popc((held & (0u - held)) - 1));  // up to the lowest bit
  }
  return empty < width ? empty : width;
}

/// One warp per segment of a row of the block table writes the missing block ids, and padding over
/// the last gather's ids behind them. During a residency, blocks are appended to its row.
/// RowContent describes the other changes in a KV cache group.
template <bool Groups>
__device__ void write_blocks(const GatherSite& site, const Message& message) {
  const GatherHead& head = message.head;
  const u64 before = u64{head.number % 2} * site.max_entries;
  const u64 after = u64{(head.number + 1) % 2} * site.max_entries;
  const u32 entries = head.num_entries > head.last_entries ? head.num_entries : head.last_entries;
  const u32 lane = threadIdx.x % 32;
  const u32 units_of_list = entries * head.segments;  // at most 2^31
  const u32 units = units_of_list * num_lists<Groups>(site);  // < 2^32: 2 KiB each
  for (u32 unit = blockIdx.x * kWarpsOfBlock + threadIdx.x / 32; unit < units; unit += gridDim.x * kWarpsOfBlock) {
    const List<Groups> list(site, Groups ? unit / units_of_list : 0);
    const u32 unit_of_list = Groups ? unit % units_of_list : unit;
    const u32 entry = unit_of_list % entries;
    const u32 segment = unit_of_list / entries;
    RowContent old{0, 0};
    if (entry < head.last_entries) old = list.contents()[before + entry];
    RowContent now{0, 0};
    const u32* blocks = nullptr;
    if (entry < head.num_entries) {
      const u32 row = list.row(message.rows_of_warps[entry]);
      now = {u64{row} << 32 | site.rows[row].generation, site.rows[row].num_blocks};
      blocks = site.row_blocks + u64{row} * site.max_blocks_per_row;
    }
    u32 kept = old.residency != now.residency ? 0 : old.width < now.width ? old.width : now.width;
    const u32 wide = old.width > now.width ? old.width : now.width;
    const u32 first = segment * kSegmentBlocks;
    const u32 end = wide < first + kSegmentBlocks ? wide : first + kSegmentBlocks;
    std::int32_t* target = list.block_table(entry);
    if constexpr (Groups) {
      const u32 empty = kept == 0 ? 0 : old.empty;
      if (segment == 0 && entry < head.num_entries) now.empty = count_empty(blocks, now.width, empty);
      if (site.groups[list.index].moves) {
        kept = empty < kept ? empty : kept;
      } else {
        // The places of dropped blocks are a leading run, so a lane ends at the first place with a
        // block.
        for (u32 i = (empty > first ? empty : first) + lane; i < kept && i < end && blocks[i] == kNullBlock; i += 32) target[i] = 0;
      }
    }
    if (entry < head.num_entries && segment == 0 && lane == 0) list.contents()[after + entry] = now;
#pragma unroll 4
    for (u32 i = (kept > first ? kept : first) + lane; i < end; i += 32) {
      target[i] = i < now.width ? static_cast<std::int32_t>(blocks[i]) : 0;
    }
  }
}

/// The work of the whole grid. The last thread block to end completes the gather.
template <Order kOrder, bool Groups>
__device__ void gather(const GatherSite& site, const GatherHead& head, const u32* words) {
  const Message message(head, words);
  write_counts(site, message);
  write_tokens<Groups>(site, message);
  write_blocks<Groups>(site, message);
  __syncthreads();
  if (threadIdx.x != 0) return;
  DeviceWord ended(site.counts->ended);
  if (ended.fetch_add(1, ::cuda::memory_order_acq_rel) != gridDim.x - 1) return;
  ended.store(0, ::cuda::memory_order_relaxed);
  DeviceWord(site.counts->begun).store(0, ::cuda::memory_order_relaxed);
  complete<kOrder>(site.completion, head.number, 0);
}

template <u32 Words, bool Groups>
__global__ void __launch_bounds__(kThreads) gather_value(const __grid_constant__ GatherSite site,
                                                         const __grid_constant__ GatherLetter<Words> letter) {
  await_earlier_kernels();
  // Relaxed, because the host only counts gathers.
  gather<Order::kRelaxed, Groups>(site, letter.head, letter.words);
}

/// A gather that also applies the preceding log. The first thread block that runs applies the log
/// and releases the others. The others wait only for it, so all of them end, in any order and with
/// any number of concurrent blocks.
template <u32 Words, bool Groups>
__global__ void __launch_bounds__(kThreads, 1) apply_and_gather(const __grid_constant__ JointLetter<Words> letter) {
  GatherCounts& counts = *letter.gather.counts;
  DeviceWord applied(counts.applied);
  const bool leads = threadIdx.x == 0;
  if (__syncthreads_or(leads && DeviceWord(counts.begun).fetch_add(1, ::cuda::memory_order_relaxed) == 0)) {
    alignas(16) __shared__ u32 log[Words];
    apply_staged<false>(letter.site, letter.number, letter.slot, log, letter.words, letter.log_words);
    if (leads) applied.store(letter.head.number, ::cuda::memory_order_release);  // after the log's barrier
  } else {
    while (leads && applied.load(::cuda::memory_order_acquire) != letter.head.number) wait_a_little();
    __syncthreads();
  }
  gather<Order::kRelaxed, Groups>(letter.gather, letter.head, letter.words + letter.message_at);
}

template <bool Groups>
__global__ void __launch_bounds__(kThreads) gather_staged(const __grid_constant__ GatherSite site,
                                                          const __grid_constant__ GatherHead head, const u32* words) {
  // Released, because the host overwrites the slot of the message.
  gather<Order::kRelease, Groups>(site, head, words);
}

/// Copies a long message from its slot, kFetchWords per thread block. It therefore crosses the bus
/// once, however often it is read.
__global__ void __launch_bounds__(kThreads) fetch_message(u32* to, const u32* mapped, u64 words) {
  const u64 first = u64{blockIdx.x} * kFetchWords;
  const u64 left = words - first;
  fetch(to + first, mapped + first, left < kFetchWords ? static_cast<u32>(left) : kFetchWords);
}

}  // namespace

template <bool Groups>
static const GatherKernels& kernels_of() {
  static const GatherKernels all{address(&gather_value<kSmallGatherWords, Groups>), address(&gather_value<kLargeGatherWords, Groups>),
                                 address(&gather_staged<Groups>), address(&fetch_message),
                                 address(&apply_and_gather<kSmallJointWords, Groups>),
                                 address(&apply_and_gather<kLargeJointWords, Groups>)};
  return all;
}

const GatherKernels& gather_kernels(bool with_groups) { return with_groups ? kernels_of<true>() : kernels_of<false>(); }

}  // namespace blockstep::cuda
