// The kernels of the reference executor: save, write, read, adopt.
#include "../kernels/launch.cuh"
#include "reference_kernels.h"

namespace blockstep::cuda {
namespace {

/// An entry as two halves of 16 bytes, the widest unit of a load or store.
struct Halves {
  uint4 of[2];
};
__device__ Halves load(const KvEntry* entry) {
  const uint4* source = reinterpret_cast<const uint4*>(entry);
  return {{source[0], source[1]}};
}
__device__ void store(KvEntry* entry, const Halves& halves) {
  uint4* target = reinterpret_cast<uint4*>(entry);
  target[0] = halves.of[0];
  target[1] = halves.of[1];
}

__device__ const std::int32_t* row_of(const EntryGroup& group, u32 row) {
  return group.at.block_table + u64{row} * group.max_blocks_per_row;
}

__device__ std::int64_t slot_of(const EntryGroup& group, const EntryOrder& order) {
  if (order.mapping != kNone) return group.at.slot_mapping[order.mapping];
  const u32 position = order.entry.position;
  const std::int64_t block = row_of(group, order.row)[position / group.block_size];
  return block * group.block_size + position % group.block_size;
}

/// Entry `offset` of a block. Null if the block is the null block, or does not exist.
__device__ KvEntry* entry_of(const EntrySite& site, std::int64_t block, u32 offset) {
  if (block < 1 || block >= site.num_blocks) return nullptr;
  return site.entries + static_cast<u64>(block) * site.block_size + offset;
}

/// Saves states, one thread per order. A block that does not exist reads as unwritten.
__global__ void __launch_bounds__(kThreads) save_states(const __grid_constant__ EntrySite site, StateOrder* orders,
                                                        const u32* num_orders) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= *num_orders) return;
  StateOrder& order = orders[i];
  const KvEntry* state = entry_of(site, row_of(site.groups[order.group], order.row)[order.index], 0);
  store(&order.saved, state ? load(state) : Halves{});
}

/// Writes entries, one thread per order. A slot of the null block, or a slot that does not exist,
/// is skipped.
__global__ void __launch_bounds__(kThreads) write_entries(const __grid_constant__ EntrySite site, EntryOrder* orders,
                                                          const OrderRange* range) {
  const u32 i = range->first + blockIdx.x * kThreads + threadIdx.x;
  if (i >= range->end) return;
  EntryOrder& order = orders[i];
  const EntryGroup& group = site.groups[order.entry.group];
  const std::int64_t slot = slot_of(group, order);
  order.found = slot;
  const u32 offset = static_cast<u32>(slot % group.block_size);
  KvEntry* entry = entry_of(site, slot / group.block_size, group.is_state ? 0 : offset);
  if (!entry) return;
  const Halves halves = load(&order.entry);
  const u32 count = group.is_state ? site.block_size : 1;
  for (u32 at = 0; at < count; ++at) store(entry + at, halves);
}

/// Reads entries into the window, one thread block per stretch. Positions behind the end of the
/// sequence or of its last block read as unwritten. So do positions without a block, and entries
/// that the group does not use.
__global__ void __launch_bounds__(kThreads) read_entries(const __grid_constant__ EntrySite site,
                                                         const ReadStretch* stretches, KvEntry* window) {
  const ReadStretch stretch = stretches[blockIdx.x];
  const EntryGroup& group = site.groups[stretch.group];
  const std::int64_t length = site.seq_lens[stretch.row];
  const std::int32_t* blocks = row_of(group, stretch.row) + stretch.from;
  KvEntry* out = window + u64{stretch.at} * site.block_size;
  for (u32 i = threadIdx.x; i < stretch.count * site.block_size; i += kThreads) {
    const u32 offset = i % site.block_size;
    const std::int64_t start = (std::int64_t{stretch.from} + i / site.block_size) * group.block_size;
    Halves read{};
    if (offset < group.block_size && start + (group.is_whole ? 0 : offset) < length) {
      if (const KvEntry* entry = entry_of(site, blocks[i / site.block_size], offset)) read = load(entry);
    }
    store(out + i, read);
  }
}

/// Adopts blocks, one thread block per adoption.
__global__ void __launch_bounds__(kThreads) adopt_blocks(KvEntry* entries, u32 block_size,
                                                         const __grid_constant__ AdoptionList all) {
  const Adoption adoption = all.list[blockIdx.x];
  KvEntry* block = entries + u64{adoption.block} * block_size;
  for (u32 i = threadIdx.x; i < block_size; i += kThreads) {
    if (adoption.filled) block[i].generation = adoption.generation;
    else block[i] = {};
  }
}

}  // namespace

const ReferenceKernels& reference_kernels() {
  static const ReferenceKernels all{address(&save_states), address(&write_entries), address(&read_entries), address(&adopt_blocks)};
  return all;
}

}  // namespace blockstep::cuda
