// Slabs of pinned memory: pieces never overlap, are zeroed, and freed pieces are reused before more
// memory is pinned.
#include <thread>

#include "../../base/error.h"
#include "../../cuda/memory/pinned_slabs.h"
#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;
using cuda::PinnedPiece;
using cuda::PinnedSlabs;

constexpr u64 kSlab = 4096;

/// Slabs of host memory, with a different address "for the GPU".
struct Rig {
  explicit Rig(u64 kept, u64 slab = kSlab)
      : slabs({slab, kept},
              [this](u64 bytes) {
                if (fails) throw Error{kNoMemory, "no memory"};
                pinned += bytes;
                auto* const base = static_cast<u8*>(std::aligned_alloc(256, bytes));
                std::memset(base, 0xaa, bytes);
                return PinnedPiece{base, base + (u64{1} << 40), bytes, 0};
              },
              [this](const PinnedPiece& piece) {
                unpinned += piece.bytes;
                std::free(piece.base);
              }) {}
  bool fails = false;
  u64 pinned = 0;
  u64 unpinned = 0;
  PinnedSlabs slabs;
};

static void test_pieces() {
  Rig rig(~u64{0});
  const PinnedPiece first = rig.slabs.take(1);
  const PinnedPiece second = rig.slabs.take(300);
  EXPECT(rig.pinned == kSlab && second.base == first.base + 256 && second.bytes == 300, "one slab");
  EXPECT(second.on_device - second.base == std::ptrdiff_t{1} << 40, "the address for the GPU");
  for (u32 i = 0; i < 300; ++i) EXPECT(second.base[i] == 0, "byte %u", i);
  second.base[7] = 1;
  rig.slabs.give_back(second);
  const PinnedPiece again = rig.slabs.take(512);
  EXPECT(again.base == second.base && again.base[7] == 0, "the gap, zeroed");
  const PinnedPiece large = rig.slabs.take(3 * kSlab);
  EXPECT(rig.pinned == 4 * kSlab && rig.slabs.pinned_bytes() == 4 * kSlab, "a slab for one piece");
  // The smallest sufficient gap.
  rig.slabs.give_back(large);
  rig.slabs.give_back(first);
  EXPECT(rig.slabs.take(256).base == first.base, "the smallest gap");
  EXPECT(rig.slabs.take(kSlab).base == large.base, "the large gap");
  EXPECT(rig.pinned == 4 * kSlab && rig.unpinned == 0, "nothing more was pinned");
}

/// Adjacent gaps are one gap, in any order of their release.
static void test_joined() {
  for (u32 order = 0; order < 6; ++order) {
    Rig rig(~u64{0});
    PinnedPiece pieces[3];
    for (PinnedPiece& piece : pieces) piece = rig.slabs.take(256);
    const PinnedPiece rest = rig.slabs.take(kSlab - 3 * 256);
    const u32 begin = order % 3;
    const u32 step = 1 + order / 3;
    for (u32 i = 0; i < 3; ++i) rig.slabs.give_back(pieces[(begin + i * step) % 3]);
    EXPECT(rig.slabs.take(3 * 256).base == pieces[0].base, "order %u", order);
    rig.slabs.give_back(pieces[0].base ? PinnedPiece{pieces[0].base, pieces[0].on_device, 768, 0} : rest);
    rig.slabs.give_back(rest);
    EXPECT(rig.slabs.take(kSlab).base == pieces[0].base && rig.pinned == kSlab, "order %u: the whole slab", order);
  }
}

/// Slabs beyond the limit are unpinned, the largest first, but never a slab with a piece.
static void test_surplus() {
  Rig rig(2 * kSlab);
  const PinnedPiece held = rig.slabs.take(16);
  const PinnedPiece small = rig.slabs.take(kSlab);
  const PinnedPiece large = rig.slabs.take(2 * kSlab);
  rig.slabs.give_back(small);
  EXPECT(rig.unpinned == 0, "below the limit");
  rig.slabs.give_back(large);
  EXPECT(rig.unpinned == 2 * kSlab && rig.slabs.pinned_bytes() == 2 * kSlab, "%llu bytes", wide(rig.unpinned));
  rig.slabs.give_back(held);
  EXPECT(rig.unpinned == 2 * kSlab, "two slabs are kept");
}

static void test_failure() {
  Rig rig(0);
  const PinnedPiece held = rig.slabs.take(kSlab - 256);
  rig.fails = true;
  try {
    rig.slabs.take(kSlab);
    EXPECT(false, "it was pinned");
  } catch (const Error& error) {
    EXPECT(error.code == std::string(kNoMemory), "%s", error.code);
  }
  EXPECT(rig.slabs.take(256).base == held.base + kSlab - 256 && rig.pinned == kSlab, "what is there is still given");
}

/// Pieces of several threads: each keeps its content.
static void test_threads() {
  Rig rig(kSlab);
  const auto live = [&](u64 seed) {
    Random random(seed);
    std::vector<PinnedPiece> pieces;
    const auto check = [&](const PinnedPiece& piece) {
      for (u64 i = 0; i < piece.bytes; ++i) EXPECT(piece.base[i] == static_cast<u8>(seed), "byte %llu", wide(i));
    };
    for (u32 turn = 0; turn < 2000; ++turn) {
      if (pieces.size() < 8 && random.below(2) == 0) {
        pieces.push_back(rig.slabs.take(1 + random.below(2 * kSlab)));
        for (u64 i = 0; i < pieces.back().bytes; ++i) EXPECT(pieces.back().base[i] == 0, "not zeroed");
        std::memset(pieces.back().base, static_cast<int>(seed), pieces.back().bytes);
      } else if (!pieces.empty()) {
        const auto at = static_cast<std::ptrdiff_t>(random.below(pieces.size()));
        check(pieces[static_cast<std::size_t>(at)]);
        rig.slabs.give_back(pieces[static_cast<std::size_t>(at)]);
        pieces.erase(pieces.begin() + at);
      }
    }
    for (const PinnedPiece& piece : pieces) {
      check(piece);
      rig.slabs.give_back(piece);
    }
  };
  std::vector<std::thread> threads;
  for (u64 seed = 1; seed <= 3; ++seed) threads.emplace_back(live, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT(rig.slabs.pinned_bytes() <= kSlab && rig.pinned - rig.unpinned == rig.slabs.pinned_bytes(), "bytes are lost");
}

int main() {
  test_pieces();
  test_joined();
  test_surplus();
  test_failure();
  test_threads();
  std::printf("pieces of pinned slabs never overlap, and are used again\n");
}
