// Possessions: which request took each block, as the plans say.
#pragma once

#include "../../base/memory.h"

namespace blockstep {

/// Which request took a block from the free queue last, and how often requests took it.
struct Possession {
  u64 owner;       // handle of the request that took the block last; 0: none did
  u32 generation;  // how often the block was taken
  u32 arrivals;    // how often lanes had filled the block when it was taken
};

/// 16 bytes per block, zeroed. The operating system gives pages where they are first written.
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
