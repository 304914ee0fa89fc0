// The completion ring and lanes, as JavaScript objects. src/core/native/native-transfer.ts
// describes them.
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

/// Defines the three classes.
void define_transfer_classes(Napi::Env env);

// addon.createRing(), createLane() and createCudaLane().
Napi::Value create_ring(const Call& call);
Napi::Value create_lane(const Call& call);
Napi::Value create_cuda_lane(const Call& call);

}  // namespace blockstep
