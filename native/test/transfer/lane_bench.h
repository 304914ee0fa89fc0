// A lane of any kind between its own two arenas.
#pragma once

#include <algorithm>
#include <functional>

#include "../../transfer/completion_ring.h"
#include "../../transfer/lane/lane.h"
#include "../support/support.h"

namespace blockstep::test {

constexpr u32 kBlocks = 96;
constexpr u64 kBytes = 80;  // not a power of two, so that a wrong offset is found

/// Makes lanes of one kind, and their arenas. The host can read and write both arenas.
struct LaneKind {
  std::function<std::shared_ptr<BlockArena>(u32 blocks, u64 bytes)> make_source;
  std::function<std::shared_ptr<BlockArena>(u32 blocks, u64 bytes)> make_target;
  /// With random options of this kind of lane.
  std::function<std::unique_ptr<Lane>(std::shared_ptr<CompletionRing>, std::shared_ptr<BlockArena> source,
                                      std::shared_ptr<BlockArena> target, u64 piece_bytes, Random& random)>
      make;
};

inline u8 pattern(u32 block, u32 version, u64 at) { return static_cast<u8>(block * 7 + version * 131 + at * 3 + (at >> 5)); }

inline void fill(BlockArena& arena, u32 block, u32 version) {
  for (u64 i = 0; i < arena.bytes_per_block(); ++i) arena.block(block)[i] = pattern(block, version, i);
}

/// Whether a block holds the content that fill() wrote into block `of`.
inline bool holds(const BlockArena& arena, u32 block, u32 of, u32 version) {
  for (u64 i = 0; i < arena.bytes_per_block(); ++i) {
    if (arena.block(block)[i] != pattern(of, version, i)) return false;
  }
  return true;
}

/// A lane between its own two arenas. Blocks of the source hold version 1, blocks of the target
/// version 2.
struct Bench {
  std::shared_ptr<CompletionRing> ring;
  std::shared_ptr<BlockArena> source;
  std::shared_ptr<BlockArena> target;
  std::unique_ptr<Lane> lane;
  std::vector<Verdict> verdicts;  // by job, for small numbers

  Bench(const LaneKind& kind, u64 piece_bytes, Random& random, u32 capacity = 64)
      : ring(std::make_shared<CompletionRing>(capacity)),
        source(kind.make_source(kBlocks, kBytes)),
        target(kind.make_target(kBlocks, kBytes)) {
    for (u32 block = 0; block < kBlocks; ++block) {
      fill(*source, block, 1);
      fill(*target, block, 2);
    }
    lane = kind.make(ring, source, target, piece_bytes, random);
  }

  u32 submit(const std::vector<std::int32_t>& sources, const std::vector<std::int32_t>& targets,
             std::int64_t not_before = Lane::kNoFence) {
    return lane->submit({sources.data(), static_cast<u32>(sources.size())},
                        {targets.data(), static_cast<u32>(targets.size())}, not_before);
  }
  void flush(const std::vector<std::int32_t>& jobs) { lane->flush({jobs.data(), static_cast<u32>(jobs.size())}); }

  /// The verdict of an ended job. @returns 0 if it has not ended
  u32 verdict(u32 job) {
    drain();
    return job < verdicts.size() ? static_cast<u32>(verdicts[job]) : 0;
  }
  void drain() {
    std::int32_t out[2 * 64];
    const auto found = ring->drain(out, 64);
    EXPECT(found.late == 0, "%u late words", found.late);
    for (u32 i = 0; i < found.pairs; ++i) {
      const auto job = static_cast<u32>(out[2 * i]);
      if (job >= verdicts.size()) verdicts.resize(2 * job + 1);
      EXPECT(static_cast<u32>(verdicts[job]) == 0, "job %u is over twice", job);
      verdicts[job] = static_cast<Verdict>(out[2 * i + 1]);
    }
  }
  template <class Call>
  const char* code_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code;
    }
    return "none";
  }
};

constexpr u32 kOk = static_cast<u32>(Verdict::kOk);
constexpr u32 kCancelled = static_cast<u32>(Verdict::kCancelled);

/// The test's data of a job in flight.
struct Flying {
  u32 job;
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> targets;
  std::int64_t not_before;
  bool cancelled;
};

}  // namespace blockstep::test
