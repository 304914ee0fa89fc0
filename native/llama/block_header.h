// BlockHeader: precedes the bytes of a saved KV block, and says whether this context may read them.
// Saved bytes come from disks and servers, and llama.cpp trusts what it reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace blockstep::llama {

/// How a copy of a block ended. src/executors/llama-cpp/kv/copy-ends.ts has the same numbers.
enum class CopyEnd : int32_t {
  kDone = 0,
  kNoBlock = 1,     // the bytes are no saved block, or one of another version of this format
  kLibrary = 2,     // saved by another commit of llama.cpp
  kModel = 3,       // ... of another model
  kAdapters = 4,    // ... with other adapters
  kCache = 5,       // ... in a cache of other types
  kShape = 6,       // ... of another block size or context
  kDamaged = 7,     // the bytes are not those that were saved
  kLlama = 8,       // llama.cpp failed
  kStopped = 9,     // the context is being freed
};

/// Hashes of everything that must be equal where a block is saved and loaded, in the order of
/// CopyEnd from kLibrary on.
using BlockOrigin = std::array<uint64_t, 5>;

struct BlockHeader {
  std::array<char, 8> magic;
  BlockOrigin origin;
  int32_t from;       // first position of the block in its text
  uint32_t bytes;     // bytes behind the header
  uint64_t checksum;  // of the rest of the header, and of these bytes
};
static_assert(sizeof(BlockHeader) == 64);

/// Fills the header of a block whose bytes follow it.
void write_header(uint8_t* block, const BlockOrigin& origin, int32_t from, std::size_t bytes);

/// Compares the header of a block, and not yet its bytes.
/// @param bytes that a block of this context has behind the header
CopyEnd check_header(const uint8_t* block, const BlockOrigin& origin, std::size_t bytes, int32_t block_size, BlockHeader& header);

/// Whether header and bytes are those that were saved.
bool is_whole(const uint8_t* block, const BlockHeader& header);

}  // namespace blockstep::llama
