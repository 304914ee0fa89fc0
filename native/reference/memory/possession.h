// Possessions: the request that took each block, according to the plans.
#pragma once

#include "../../base/memory.h"

namespace blockstep {

/// The request that last took a block from the free queue, and the number of times that requests
/// took the block.
struct Possession {
  u64 owner;       // handle of the request that last took the block; 0: none
  u32 generation;  // number of times that the block was taken
  u32 arrivals;    // number of fills by lanes when the block was taken
};

/// 16 bytes per block, zeroed. The operating system provides pages at the first write.
class Possessions {
 public:
  /// @throws Error kNoMemory
  explicit Possessions(u32 num_blocks) : memory_(u64{num_blocks} * sizeof(Possession)) {}

  Possession& operator[](u32 block) { return static_cast<Possession*>(memory_.base())[block]; }
  u64 bytes() const { return memory_.bytes(); }

 private:
  Memory memory_;
};

}  // namespace blockstep
