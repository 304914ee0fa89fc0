// Reads: the cells that the rows of a tile read, cut into blocks and grouped so that rows with the
// same cells share the work.
#pragma once

#include <cstdint>
#include <vector>

#include "call.h"

namespace blockstep::llama {

/// A row's part in a group.
struct RowRead {
  int32_t row;     // row of the tile
  uint64_t reads;  // bit i is set if the row reads cell i of the group
};

/// At most kBlock cells that are computed together, and the rows that read them.
struct ReadGroup {
  int32_t first_cell, num_cells;  // in Reads::cells, ascending
  int32_t first_row, num_rows;    // in Reads::rows
};

/**
 * The row alone determines how its cells are cut into blocks. A block is consecutive words of 64
 * cells, while the row reads at most 64 cells of them. A row is computed block by block, each with
 * all its cells there, whatever other rows read. The results of a row therefore do not depend on
 * the rows computed with it.
 */
class Reads {
 public:
  /// Reads the mask of the rows from `first` on. @throws std::bad_alloc
  void read(const AttentionCall& call, int first, int rows);

  /// The blocks of a row come in ascending order.
  std::vector<ReadGroup> groups;
  std::vector<int32_t> cells;
  std::vector<RowRead> rows;
  /// Whether the mask has numbers other than 0 and minus infinity.
  bool has_biases = false;

 private:
  struct Word {
    int32_t index;
    uint64_t bits;
  };
  struct Block {
    int32_t row;
    int32_t first, count;  // in words_
  };

  void cut(const AttentionCall& call, int first, int row);
  uint64_t word(const uint16_t* mask, int count);
  void sort(std::size_t num_words);
  void group(const Block* blocks, int count, int heads);
  void close(const std::vector<const Block*>& members);
  bool unite(const Block& block);

  std::vector<Word> words_;   // words with cells that rows read, row by row
  std::vector<Block> blocks_, sorted_;
  std::vector<int32_t> starts_;
  std::vector<Word> union_, united_;
  std::vector<const Block*> members_;
};

}  // namespace blockstep::llama
