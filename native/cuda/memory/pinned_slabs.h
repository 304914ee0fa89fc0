// PinnedSlabs: pinned memory in large slabs, cut into pieces. Pinning memory takes milliseconds, and unpinning it waits for all
// work on all GPUs. So slabs that are free again are kept for the pieces that come, up to a limit.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep::cuda {

/// A piece of a slab, by its addresses for the host and for a GPU.
struct PinnedPiece {
  u8* base = nullptr;
  u8* on_device = nullptr;
  u64 bytes = 0;
  int device = 0;  // of a whole slab: the GPU in whose context it was pinned
};

struct PinnedLimits {
  u64 slab_bytes;  // of a slab, unless one piece needs more
  u64 kept_bytes;  // of slabs without a piece that are kept; what is more is unpinned, which waits for all work on the GPUs
};

/// All calls from any thread.
class PinnedSlabs {
 public:
  using Pin = std::function<PinnedPiece(u64 bytes)>;
  using Unpin = std::function<void(const PinnedPiece&)>;

  PinnedSlabs(const PinnedLimits& limits, Pin pin, Unpin unpin);

  /// A piece that begins on a line of 256 bytes, zeroed: the smallest gap that it fits into, else the begin of a new slab.
  /// @throws what `pin` throws, std::bad_alloc
  PinnedPiece take(u64 bytes);
  /// Takes a piece back.
  void give_back(const PinnedPiece& piece);
  /// Bytes of all slabs.
  u64 pinned_bytes() const;

 private:
  struct Slab {
    PinnedPiece whole;
    u64 used = 0;  // bytes in pieces, rounded up to lines
    std::map<u64, u64> gaps;  // offset: bytes
  };
  static u64 whole_lines(u64 bytes);
  PinnedPiece cut(Slab& slab, u64 offset, u64 bytes);
  void release_surplus();

  const PinnedLimits limits_;
  const Pin pin_;
  const Unpin unpin_;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
};

/// The slabs of this process. Never destroyed.
PinnedSlabs& pinned_slabs();

}  // namespace blockstep::cuda
