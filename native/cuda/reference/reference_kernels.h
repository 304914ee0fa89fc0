// The kernels of the reference executor, and what they are launched with: what is to be written, read and adopted is said
// by the host, where it lies by the tables on the GPU.
#pragma once

#include "../../host/tables/tables.h"
#include "../../reference/memory/kv_entry.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// What a step works on.
struct EntrySite {
  Tables at;         // on the GPU
  u32 max_blocks_per_row;
  u32 block_size;
  u32 num_blocks;
  KvEntry* entries;  // [num_blocks * block_size] on the GPU
};

/// One entry that is to be written, in mapped memory. The kernel looks up its slot, and says which one it found.
struct alignas(16) EntryOrder {
  KvEntry entry;
  u32 row;                // entry of the step
  u32 mapping;            // index into the slot mapping; kNone: the row of the block table says where its position lies
  std::int64_t expected;  // the slot, as the host saw the tables
  std::int64_t found;     // the answer
};
static_assert(sizeof(EntryOrder) == 64);

/// Blocks [from, from + count) of a row that are to be read, and where they go: in blocks of the window.
struct ReadStretch {
  u32 row;
  u32 from;
  u32 count;
  u32 at;
};

/// A block that lanes have filled, or should have.
struct Adoption {
  u32 block;
  u32 generation;
  u32 filled;  // 0: it is wiped
};
/// As many as a launch takes as parameters.
struct AdoptionList {
  static constexpr u32 kMost = 336;
  Adoption list[kMost];
};
static_assert(sizeof(AdoptionList) + 2 * sizeof(void*) <= 4096);

/// By address, as cudaLaunchKernel() wants them; arguments as reference.cu says.
struct ReferenceKernels {
  const void* write;
  const void* read;
  const void* adopt;
};
const ReferenceKernels& reference_kernels();

}  // namespace blockstep::cuda
