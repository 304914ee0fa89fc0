// PinnedSlabs: pinned memory in large slabs, cut into pieces. Pinning memory takes milliseconds,
// and unpinning waits for all work on all GPUs. Slabs without pieces are therefore kept for later
// pieces, up to a limit.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep::cuda {

/// A piece of a slab, by its host address and its GPU address.
struct PinnedPiece {
  u8* base = nullptr;
  u8* on_device = nullptr;
  u64 bytes = 0;
  int device = 0;  // of a whole slab: the GPU in whose context it was pinned
};

struct PinnedLimits {
  u64 slab_bytes;  // bytes of a slab, unless one piece needs more
  // Bytes of kept slabs without pieces. Further slabs are unpinned, which waits for all work on the
  // GPUs.
  u64 kept_bytes;
};

/// Any thread may call any method.
class PinnedSlabs {
 public:
  using Pin = std::function<PinnedPiece(u64 bytes)>;
  using Unpin = std::function<void(const PinnedPiece&)>;

  PinnedSlabs(const PinnedLimits& limits, Pin pin, Unpin unpin);

  /// A zeroed piece that begins at a line of 256 bytes, from the smallest sufficient gap or a new
  /// slab.
  /// @throws exceptions of `pin`, std::bad_alloc
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
