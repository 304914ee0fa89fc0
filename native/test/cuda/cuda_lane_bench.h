// CUDA lanes between arenas on the emulated GPU, and faults there.
#pragma once

#include "../../cuda/base/backend.h"
#include "../../cuda/base/gpu.h"
#include "../../cuda/memory/memory.h"
#include "../gpu_shim/runtime/faults.h"
#include "../gpu_shim/runtime/memory.h"
#include "../transfer/lane_bench.h"

namespace blockstep::test {

namespace gpu_code = blockstep::cuda;
using gpu_code::Event;
using gpu_code::Stream;

/// A foreign stream. Only its creation needs a current GPU context.
inline std::unique_ptr<Stream> make_stream() {
  const gpu_code::OnDevice on(0);
  return std::make_unique<Stream>();
}

constexpr u32 kFailed = static_cast<u32>(Verdict::kFailed);

/// Plants faults on the emulated GPU. The host may then also read its memory.
inline void plant(const std::string& faults) { setenv("EMULATED_GPU", ("unguarded," + faults).c_str(), 1); }

inline std::shared_ptr<BlockArena> make_arena(Place place, u32 blocks = kBlocks, u64 bytes = kBytes) {
  return std::make_shared<BlockArena>(blocks, bytes, gpu_code::allocate_blocks(place, 0, blocks * bytes));
}

inline DeviceLaneOptions options_of(CopyMode mode, CompletionMode completion = CompletionMode::kAuto) {
  DeviceLaneOptions options;
  options.mode = mode;
  options.completion = completion;
  return options;
}

/// Lanes between two places, with every copy mode and completion mode.
inline LaneKind cuda_lanes(Place source, Place target) {
  const auto make = [](auto ring, auto from, auto to, u64 piece_bytes, Random& random) {
    DeviceLaneOptions options = options_of(static_cast<CopyMode>(random.below(4)), static_cast<CompletionMode>(random.below(3)));
    options.piece_bytes = piece_bytes;
    options.window_bytes = 1 + random.below(40 * kBytes);
    return gpu_code::open_lane(ring, from, to, options);
  };
  return {[source](u32 blocks, u64 bytes) { return make_arena(source, blocks, bytes); },
          [target](u32 blocks, u64 bytes) { return make_arena(target, blocks, bytes); }, make};
}

/// A lane with these options between its own arenas.
struct CudaBench : Bench {
  explicit CudaBench(const DeviceLaneOptions& options, Place from = Place::kPinned, Place to = Place::kDevice)
      : Bench(kind_of(options, from, to), options.piece_bytes, unused()) {}
  DeviceLane& cuda() { return static_cast<DeviceLane&>(*lane); }

 private:
  static LaneKind kind_of(const DeviceLaneOptions& options, Place from, Place to) {
    LaneKind kind = cuda_lanes(from, to);
    kind.make = [options](auto ring, auto source, auto target, u64, Random&) {
      return gpu_code::open_lane(ring, source, target, options);
    };
    return kind;
  }
  static Random& unused() {
    static Random random(1);
    return random;
  }
};

inline std::vector<std::int32_t> all_blocks() {
  std::vector<std::int32_t> all(kBlocks);
  for (u32 i = 0; i < kBlocks; ++i) all[i] = static_cast<std::int32_t>(i);
  return all;
}

}  // namespace blockstep::test
