// The kernels of the reference executor, and their arguments. The host names the entries and rows
// to write and read. The tables on the GPU determine their slots and blocks.
#pragma once

#include "../../host/tables/tables.h"
#include "../../reference/memory/kv_entry.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// The tables of a KV cache group, on the GPU. Without groups there is one such struct.
struct EntryGroup {
  GroupTables at;
  u32 max_blocks_per_row;
  u32 block_size;  // tokens of a block
  bool is_state;   // each block holds one state, which fills it
  bool is_whole;   // the last block of a text is read to its end
};

/// The tables and the KV memory of a step.
struct EntrySite {
  const std::int32_t* seq_lens;  // on the GPU
  KvEntry* entries;              // [num_blocks * block_size] on the GPU
  u32 num_blocks;
  u32 block_size;                // entries of a block
  EntryGroup groups[kMaxGroups];
};

/// An order to write one entry, in mapped memory. The kernel looks up the slot in the tables of the
/// entry's group, and reports it in `found`.
struct alignas(16) EntryOrder {
  KvEntry entry;
  u32 row;                // the token's entry in the step, which is its row of the block table
  u32 mapping;            // index into the slot mapping; kNone: the block table names the slot
  std::int64_t expected;  // slot in the host's copy of the tables
  std::int64_t found;     // slot in the tables on the GPU
};
static_assert(sizeof(EntryOrder) == 64);

/// The orders [first, end) of a launch.
struct OrderRange {
  u32 first;
  u32 end;
};

/// An order to save the first entry of a block, in mapped memory: a state, before the step
/// overwrites it. The kernel looks up the block in the tables of the group.
struct alignas(16) StateOrder {
  KvEntry saved;
  u32 group;
  u32 row;
  u32 index;  // place in the row
};

/// An order to read blocks [from, from + count) of a group's row into the window, from block `at`
/// of the window on.
struct ReadStretch {
  u32 group;
  u32 row;
  u32 from;
  u32 count;
  u32 at;
};

/// A block to adopt: lanes have filled it, or the caller claims so.
struct Adoption {
  u32 block;
  u32 generation;
  u32 filled;  // 0: the block is wiped
};
/// The adoptions in the parameters of a launch.
struct AdoptionList {
  static constexpr u32 kMost = 336;
  Adoption list[kMost];
};
static_assert(sizeof(AdoptionList) + 2 * sizeof(void*) <= 4096);

/// Addresses of the kernels, for cudaLaunchKernel(). reference.cu defines their arguments.
struct ReferenceKernels {
  const void* save;
  const void* write;
  const void* read;
  const void* adopt;
};
const ReferenceKernels& reference_kernels();

}  // namespace blockstep::cuda
