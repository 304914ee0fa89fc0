// Hashes of blocks of different requests, side by side: in a decode step many requests fill a block at once.
#pragma once

#include "../../base/span.h"
#include "../../core/base/types.h"

namespace blockstep {

/// A block to hash.
struct Unhashed {
  const std::int32_t* tokens;  // [block_size]
  Key* hashes;                 // [2]: that of the block before it, and where its own goes
};

/// How blocks are hashed side by side. All of them give what chain() gives.
enum class Lanes : u32 { kOne, kAvx2, kAvx512 };

/// Whether this processor has such lanes.
bool has_lanes(Lanes lanes);

/// Hashes the blocks, in the best lanes that this processor has. No block follows another one of the list.
void hash_blocks(const Key& seed, u32 block_size, Span<const Unhashed> blocks);
/// The same in these lanes, which the processor must have.
void hash_blocks(Lanes lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks);

}  // namespace blockstep
