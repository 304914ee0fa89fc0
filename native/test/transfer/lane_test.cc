// Lanes under threads: the guarantees of every lane, and that a job that has begun stops between
// two of its pieces.
#include "../../transfer/lane/host_lane.h"
#include "lane_contract.h"

using namespace blockstep;
using namespace blockstep::test;

namespace {

LaneKind host_lanes() {
  const auto make_arena = [](u32 blocks, u64 bytes) { return std::make_shared<BlockArena>(blocks, bytes); };
  return {make_arena, make_arena, [](auto ring, auto source, auto target, u64 piece_bytes, Random& random) {
            const u32 threads = 1 + random.below(3);
            return std::make_unique<HostLane>(ring, source, target, HostLane::Options{threads, piece_bytes});
          }};
}

/// Holds the copies of the first job until the second job has ended. When the second job ends, the
/// state of the first job is therefore known.
struct Held {
  CompletionRing* ring = nullptr;
  std::atomic<u32> behind{0};  // number of the second job; 0: not submitted yet
  std::atomic<u32> begun{0};   // number of begun copies

  bool is_over() const {
    const u32 job = behind.load();
    return job != 0 && static_cast<u32>(ring->address_of(job)->load(std::memory_order_acquire)) != 0;
  }
} held;

void copy_held(void* target, const void* source, std::size_t bytes) {
  ++held.begun;
  while (!held.is_over()) std::this_thread::yield();
  std::memcpy(target, source, bytes);
}

/// A job that has begun, with a piece in each thread, and a second job that cannot begin. The call
/// that stops them marks the first job before it ends the second. The first job is therefore
/// stopped before any of its pieces is done.
void test_stop(u32 threads, const char* how) {
  constexpr u32 kPieces = 64;
  constexpr u64 kSize = 1u << 12;
  const bool fenced = how == std::string("fence");
  const auto ring = std::make_shared<CompletionRing>(4);
  const auto source = std::make_shared<BlockArena>(kPieces, kSize);
  const auto target = std::make_shared<BlockArena>(kPieces, kSize);
  for (u32 block = 0; block < kPieces; ++block) fill(*source, block, 1);
  held.ring = ring.get();
  held.behind = held.begun = 0;
  auto lane = std::make_unique<HostLane>(ring, source, target, HostLane::Options{threads, kSize, copy_held});
  std::vector<std::int32_t> all(kPieces);
  for (u32 i = 0; i < kPieces; ++i) all[i] = static_cast<std::int32_t>(i);
  const u32 job = lane->submit({all.data(), kPieces}, {all.data(), kPieces}, Lane::kNoFence);
  const u32 behind = lane->submit({all.data(), 1}, {all.data(), 1}, Lane::kNoFence);
  while (held.begun != threads) std::this_thread::yield();
  held.behind = behind;
  std::int32_t out[8];
  if (how == std::string("cancel")) {
    EXPECT(lane->cancel(job), "it has begun");
    // The job ends only after all of its copies have ended.
    EXPECT(ring->drain(out, 4).pairs == 0 && lane->pending() == 2, "a job was over while it was copied");
    EXPECT(lane->cancel(behind), "it is not over");
    const auto number = static_cast<std::int32_t>(job);
    lane->flush({&number, 1});
  } else if (fenced) {
    lane->fence();
  } else {
    lane.reset();
  }
  EXPECT(ring->drain(out, 4).pairs == 2 && out[0] == static_cast<std::int32_t>(job), "%s: two jobs", how);
  EXPECT(out[1] == static_cast<std::int32_t>(fenced ? Verdict::kOk : Verdict::kCancelled), "%s: it ended with %d", how, out[1]);
  EXPECT(out[3] == static_cast<std::int32_t>(Verdict::kCancelled), "%s: the one behind ended with %d", how, out[3]);
  // A fence waits for the whole begun job.
  const u32 copied = fenced ? kPieces : threads;
  EXPECT(held.begun == copied, "%s: %u copies", how, held.begun.load());
  for (u32 block = 0; block < kPieces; ++block) {
    EXPECT(target->arrivals(block) == (block < copied), "%s: block %u came %u times", how, block, target->arrivals(block));
    if (block < copied) EXPECT(holds(*target, block, block, 1), "%s: block %u", how, block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<u32>(argument(argc, argv, 1, 100));
  for (const u32 threads : {1u, 3u}) {
    for (const char* how : {"cancel", "fence", "end"}) test_stop(threads, how);
  }
  test_contract(host_lanes(), rounds);
}
