// BlockCopier: copies the cells of KV blocks out of a context into memory, and back.
//
// llama.cpp saves and restores whole sequences. So a block's cells are given to a spare sequence,
// which nothing else uses, and that sequence is saved. All blocks have the same number of bytes.
#pragma once

#include "block_header.h"
#include "api/library.h"

namespace blockstep::llama {

class BlockCopier {
 public:
  /// Computes two tokens, to see how many bytes a token takes.
  /// @param spare a sequence of the context that nothing else uses
  /// @throws std::runtime_error
  BlockCopier(const Library& library, api::llama_context* context, int spare, int block_size, const BlockOrigin& origin);

  /// Bytes of a saved block with its header; 0: the blocks of this kind of cache cannot be saved.
  std::size_t block_bytes() const { return bytes_ == 0 ? 0 : sizeof(BlockHeader) + bytes_; }

  /// The position of a saved block in its text if its header says that this context may read it;
  /// otherwise -CopyEnd.
  int place_of(const uint8_t* block) const;

  /// Saves the cells of a block, which has all its tokens in `sequence`.
  CopyEnd save(int sequence, int from, uint8_t* block) const;
  /// Loads a saved block into new cells of `sequence`. There must be room for them.
  CopyEnd load(int sequence, int from, const uint8_t* block) const;

 private:
  void clear() const { library_.llama_memory_seq_rm(memory_, spare_, -1, -1); }
  std::size_t measure() const;

  const Library& library_;
  api::llama_context* const context_;
  const api::llama_memory_t memory_;
  const int spare_;
  const int block_size_;
  const BlockOrigin origin_;
  std::size_t bytes_;
};

}  // namespace blockstep::llama
