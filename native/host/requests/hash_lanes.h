// Hashes of several blocks side by side, in vectors: of blocks that different requests fill in one step, and the tokens of
// blocks of one prompt.
#pragma once

#include "../../base/span.h"
#include "../../core/base/types.h"

namespace blockstep {

/// A block to hash.
struct Unhashed {
  const std::int32_t* tokens;  // [block_size]
  Key* hashes;                 // [2]: that of the block before it, and where its own goes
};

/// How blocks are hashed side by side. The hashes are those of chain() in all of them.
enum class Lanes : u32 { kOne, kAvx2, kAvx512 };

/// Whether this processor has such lanes.
bool has_lanes(Lanes lanes);
/// The best that it has.
Lanes best_lanes();

/// Hashes the blocks. No block follows another one of the list.
void hash_blocks(Lanes lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks);

/// Hashes `n` blocks that follow each other: hashes[1 .. n], behind that of the block before the first.
/// @param tokens [n * block_size]
void hash_chain(Lanes lanes, const Key& seed, u32 block_size, const std::int32_t* tokens, u32 n, Key* hashes);

}  // namespace blockstep
