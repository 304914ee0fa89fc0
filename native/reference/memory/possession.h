// Who took which block, as far as plans said.
#pragma once

#include "../../base/memory.h"

namespace blockstep {

/// Who took a block from the free queue last, and how often anybody did.
struct Possession {
  u64 owner;
  u32 generation;
  u32 arrivals;  // how often lanes had filled the block when it was taken
};

/// 16 bytes per block, zeroed. Pages are taken where they are written.
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
