#include "pinned_slabs.h"

#include <algorithm>
#include <cstring>

#include "lines.h"

namespace blockstep::cuda {

PinnedSlabs::PinnedSlabs(const PinnedLimits& limits, Pin pin, Unpin unpin)
    : limits_(limits), pin_(std::move(pin)), unpin_(std::move(unpin)) {}

u64 PinnedSlabs::whole_lines(u64 bytes) {
  return cuda::whole_lines(std::max<u64>(bytes, 1), 256);
}

PinnedPiece PinnedSlabs::take(u64 bytes) {
  const u64 wanted = whole_lines(bytes);
  const std::lock_guard lock(mutex_);
  Slab* best = nullptr;
  std::pair<u64, u64> gap{0, ~u64{0}};
  for (Slab& slab : slabs_) {
    for (const auto& [offset, room] : slab.gaps) {
      if (room < wanted || room >= gap.second) continue;
      best = &slab;
      gap = {offset, room};
    }
  }
  if (best) return cut(*best, gap.first, bytes);
  slabs_.reserve(slabs_.size() + 1);  // so that no later call throws once the memory is pinned
  const u64 size = std::max(wanted, limits_.slab_bytes);
  Slab slab;
  slab.gaps.emplace(0, size);
  slab.whole = pin_(size);
  slabs_.push_back(std::move(slab));
  return cut(slabs_.back(), 0, bytes);
}

/// Cuts a piece off the front of a gap.
PinnedPiece PinnedSlabs::cut(Slab& slab, u64 offset, u64 bytes) {
  const u64 taken = whole_lines(bytes);
  const auto gap = slab.gaps.find(offset);
  const u64 rest = gap->second - taken;
  slab.gaps.erase(gap);
  if (rest != 0) slab.gaps.emplace(offset + taken, rest);
  slab.used += taken;
  const PinnedPiece piece{slab.whole.base + offset, slab.whole.on_device + offset, bytes};
  std::memset(piece.base, 0, static_cast<std::size_t>(bytes));
  return piece;
}

void PinnedSlabs::give_back(const PinnedPiece& piece) {
  const std::lock_guard lock(mutex_);
  const auto holds = [&](const Slab& slab) {
    return piece.base >= slab.whole.base && piece.base < slab.whole.base + slab.whole.bytes;
  };
  Slab& slab = *std::find_if(slabs_.begin(), slabs_.end(), holds);
  u64 bytes = whole_lines(piece.bytes);
  u64 offset = static_cast<u64>(piece.base - slab.whole.base);
  slab.used -= bytes;
  // Joins the piece with the gaps before and behind it.
  auto after = slab.gaps.lower_bound(offset);
  if (after != slab.gaps.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = slab.gaps.erase(after);
  }
  if (after != slab.gaps.begin() && std::prev(after)->first + std::prev(after)->second == offset) {
    std::prev(after)->second += bytes;
  } else {
    slab.gaps.emplace(offset, bytes);
  }
  release_surplus();
}

/// Unpins the largest slabs without pieces, until at most the limit is kept.
void PinnedSlabs::release_surplus() {
  for (;;) {
    u64 free = 0;
    auto largest = slabs_.end();
    for (auto slab = slabs_.begin(); slab != slabs_.end(); ++slab) {
      if (slab->used != 0) continue;
      free += slab->whole.bytes;
      if (largest == slabs_.end() || slab->whole.bytes > largest->whole.bytes) largest = slab;
    }
    if (free <= limits_.kept_bytes) return;
    unpin_(largest->whole);
    slabs_.erase(largest);
  }
}

u64 PinnedSlabs::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  u64 bytes = 0;
  for (const Slab& slab : slabs_) bytes += slab.whole.bytes;
  return bytes;
}

}  // namespace blockstep::cuda
