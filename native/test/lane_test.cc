// Lanes under threads: what every lane promises, and that a job stops between two of its pieces.
#include "../host/host_lane.h"
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

/// A cancelled job stops between two pieces.
void test_stop() {
  constexpr u32 kPieces = 64;
  constexpr u64 kSize = 1u << 18;
  const auto ring = std::make_shared<CompletionRing>(4);
  const auto source = std::make_shared<BlockArena>(kPieces, kSize);
  const auto target = std::make_shared<BlockArena>(kPieces, kSize);
  HostLane lane(ring, source, target, {1, kSize});
  std::vector<std::int32_t> all(kPieces);
  for (u32 i = 0; i < kPieces; ++i) all[i] = static_cast<std::int32_t>(i);
  u32 stopped = 0;
  for (u32 round = 0; round < 50 && stopped < 3; ++round) {
    const u32 before = target->arrivals(kPieces - 1);
    const u32 job = lane.submit({all.data(), kPieces}, {all.data(), kPieces}, HostLane::kNoFence);
    while (target->arrivals(0) == round) std::this_thread::yield();
    lane.cancel(job);
    lane.fence();
    std::int32_t out[8];
    EXPECT(ring->drain(out, 4).pairs == 1, "job %u", job);
    const bool whole = target->arrivals(kPieces - 1) != before;
    EXPECT(out[1] == static_cast<std::int32_t>(whole ? Verdict::kOk : Verdict::kCancelled), "job %u ended with %d", job, out[1]);
    stopped += !whole;
  }
  EXPECT(stopped == 3, "%u jobs were stopped", stopped);
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<u32>(argument(argc, argv, 1, 100));
  test_stop();
  test_contract(host_lanes(), rounds);
}
