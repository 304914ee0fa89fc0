#include "../kernels/launch.cuh"
#include "reference_kernels.h"

namespace blockstep::cuda {
namespace {

/// An entry in two halves of 16 bytes, the widest unit of a load or store.
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

__device__ const std::int32_t* row_of(const EntrySite& site, u32 row) {
  return site.at.block_table + u64{row} * site.max_blocks_per_row;
}

__device__ std::int64_t slot_of(const EntrySite& site, const EntryOrder& order) {
  if (order.mapping != kNone) return site.at.slot_mapping[order.mapping];
  const u32 position = order.entry.position;
  const std::int64_t block = row_of(site, order.row)[position / site.block_size];
  return block * site.block_size + position % site.block_size;
}

/// Writes entries, one thread per order. A slot of the null block, or one that does not exist, is left alone.
__global__ void __launch_bounds__(kThreads) write_entries(const EntrySite site, EntryOrder* orders,
                                                          const u32* num_orders) {
  const u32 i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= *num_orders) return;
  EntryOrder& order = orders[i];
  const std::int64_t slot = slot_of(site, order);
  order.found = slot;
  if (slot < site.block_size || slot >= std::int64_t{site.num_blocks} * site.block_size) return;
  store(site.entries + slot, load(&order.entry));
}

/// Reads entries into the window, one thread block per stretch. Positions behind the end of the sequence, and positions
/// whose block does not exist, read as never written.
__global__ void __launch_bounds__(kThreads) read_entries(const EntrySite site, const ReadStretch* stretches,
                                                         KvEntry* window) {
  const ReadStretch stretch = stretches[blockIdx.x];
  const std::int64_t length = site.at.seq_lens[stretch.row];
  const std::int32_t* blocks = row_of(site, stretch.row) + stretch.from;
  const u32 first = stretch.from * site.block_size;
  KvEntry* out = window + u64{stretch.at} * site.block_size;
  for (u32 i = threadIdx.x; i < stretch.count * site.block_size; i += kThreads) {
    Halves read{};
    if (std::int64_t{first} + i < length) {
      const std::int32_t block = blocks[i / site.block_size];
      if (block >= 1 && static_cast<u32>(block) < site.num_blocks) {
        read = load(site.entries + u64{static_cast<u32>(block)} * site.block_size + i % site.block_size);
      }
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
  static const ReferenceKernels all{address(&write_entries), address(&read_entries), address(&adopt_blocks)};
  return all;
}

}  // namespace blockstep::cuda
