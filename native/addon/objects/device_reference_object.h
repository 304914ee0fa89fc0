// The reference executor on a GPU, as a JavaScript object. src/core/native/native-reference.ts
// describes it.
#pragma once

#include "../../reference/device_reference.h"
#include "arena_object.h"

namespace blockstep {

template <>
struct WrapTraits<DeviceReference> {
  static constexpr const char* kClass = "NativeDeviceReference";
  static constexpr const char* kWhat = "a native reference on a GPU";
  static WrapClass& of(Environment& home) { return home.device_references; }
};

/// Defines the class.
void define_device_reference_class(Napi::Env env);

/// addon.createDeviceReference()
Napi::Value create_device_reference(const Call& call);

}  // namespace blockstep
