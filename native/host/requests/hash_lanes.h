// Hashes of several blocks side by side, in vectors: blocks that different requests fill in one
// step, or the tokens of blocks of one prompt.
#pragma once

#include "../../base/span.h"
#include "../../core/base/types.h"

namespace blockstep {

/// A block to hash.
struct Unhashed {
  const std::int32_t* tokens;  // [block_size]
  Key* hashes;                 // [2]: hash of the previous block, and place of its own hash
};

/// The number of blocks hashed side by side. The hashes equal those of chain() in all cases.
enum class Lanes : u32 { kOne, kAvx2, kAvx512 };

/// Whether this processor supports these lanes.
bool has_lanes(Lanes lanes);
/// The widest lanes of this processor.
Lanes best_lanes();

/// Hashes the blocks. No block of the list may follow another block of the list.
void hash_blocks(Lanes lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks);

/// Hashes `n` consecutive blocks into hashes[1 .. n]. hashes[0] is the hash of the block before the
/// first.
/// @param tokens [n * block_size]
void hash_chain(Lanes lanes, const Key& seed, u32 block_size, const std::int32_t* tokens, u32 n, Key* hashes);

}  // namespace blockstep
