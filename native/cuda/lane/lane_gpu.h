// LaneGpu: the resources of a lane on its GPU. They are not freed while the GPU may still use them.
#pragma once

#include <string>

#include "../copies/copier.h"
#include "recorded_steps.h"
#include "timeline.h"

namespace blockstep::cuda {

/// The ordinal of the GPU that copies between two arenas.
/// @throws Error kBadArg if an arena is kHost, if none is on a GPU, or if they are on two GPUs
inline u32 device_of(const BlockPairs& pairs) {
  const BlockArena& source = pairs.source();
  const BlockArena& target = pairs.target();
  for (const BlockArena* arena : {&source, &target}) {
    if (arena->place() != Place::kHost) continue;
    throw Error{kBadArg, std::string(arena == &source ? "source" : "target") +
                             " must be an arena on a GPU or in pinned memory, got an arena in memory that CUDA does not know: "
                             "allocate it with place 'pinned'"};
  }
  const bool from = source.place() == Place::kDevice;
  const bool to = target.place() == Place::kDevice;
  if (!from && !to) throw Error{kBadArg, "source or target must be an arena on a GPU, got two arenas in pinned memory"};
  if (from && to && source.device() != target.device()) {
    throw Error{kBadArg, "target must be on GPU " + std::to_string(source.device()) + " as source is, got GPU " +
                             std::to_string(target.device())};
  }
  return from ? source.device() : target.device();
}

inline Sides sides_of(const BlockPairs& pairs) {
  const BlockArena& source = pairs.source();
  const BlockArena& target = pairs.target();
  const Direction direction = source.place() == Place::kPinned   ? Direction::kToDevice
                              : target.place() == Place::kPinned ? Direction::kToHost
                                                                 : Direction::kOnDevice;
  return {direction, source.base(), target.base(), source.on_device(), target.on_device(), pairs.bytes_per_block()};
}

struct LaneGpu {
  /// @param number the GPU, which is current for this thread
  /// @param marks maximum number of marks of the timeline that the GPU has not reached
  LaneGpu(BlockPairs&& between, u32 number, const DeviceLaneOptions& options, u32 marks)
      : pairs(std::move(between)),
        device(static_cast<int>(number)),
        timeline(number, options.completion, marks, stream.get()),
        copier(sides_of(pairs), options, stream.get()) {}

  BlockPairs pairs;
  int device;
  Stream stream{Priority::kLowest};  // so that a step does not wait for a lane's copies
  Timeline timeline;
  RecordedSteps steps;
  Copier copier;
};

}  // namespace blockstep::cuda
