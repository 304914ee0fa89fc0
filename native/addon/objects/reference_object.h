// The reference executor on the host, as a JavaScript object. src/core/native/native-reference.ts
// describes it.
#pragma once

#include "../../reference/reference.h"
#include "arena_object.h"

namespace blockstep {

template <>
struct WrapTraits<ReferenceModel> {
  static constexpr const char* kClass = "NativeReference";
  static constexpr const char* kWhat = "a native reference";
  static WrapClass& of(Environment& home) { return home.references; }
};

/// Reads and checks NativeReferenceConfig of src/core/native/native-reference.ts. Its getters may
/// run JavaScript. @throws Error kBadArg
ReferenceConfig read_reference_config(Napi::Value value);

/// Defines the class.
void define_reference_class(Napi::Env env);

/// addon.createReference()
Napi::Value create_reference(const Call& call);

}  // namespace blockstep
