// The completion ring, block arenas and lanes, as JavaScript objects. src/core/native-transfer.ts describes them.
#pragma once

#include "../../transfer/lane/device_lane.h"
#include "../../transfer/lane/host_lane.h"
#include "../base/wrapped.h"

namespace blockstep {

template <>
struct WrapTraits<CompletionRing> {
  static constexpr const char* kClass = "NativeRing";
  static constexpr const char* kWhat = "a native completion ring";
  static WrapClass& of(Environment& home) { return home.rings; }
};

template <>
struct WrapTraits<BlockArena> {
  static constexpr const char* kClass = "NativeArena";
  static constexpr const char* kWhat = "a native block arena";
  static WrapClass& of(Environment& home) { return home.arenas; }
};

template <>
struct WrapTraits<HostLane> {
  static constexpr const char* kClass = "NativeLane";
  static constexpr const char* kWhat = "a native lane";
  static WrapClass& of(Environment& home) { return home.lanes; }
};

template <>
struct WrapTraits<DeviceLane> {
  static constexpr const char* kClass = "NativeCudaLane";
  static constexpr const char* kWhat = "a native CUDA lane";
  static WrapClass& of(Environment& home) { return home.device_lanes; }
};

/// Defines the four classes.
void define_transfer_classes(Napi::Env env);

// addon.createRing(), createArena(), createLane() and createCudaLane().
Napi::Value create_ring(const Call& call);
Napi::Value create_arena(const Call& call);
Napi::Value create_lane(const Call& call);
Napi::Value create_cuda_lane(const Call& call);

}  // namespace blockstep
