// Classes: the data of this addon in one Node environment. Only native code makes objects of these
// classes.
#pragma once

#include <napi.h>

namespace blockstep::llama {

class Library;

struct Classes {
  const Library* library = nullptr;  // null: not loaded in this environment
  Napi::FunctionReference model;
  Napi::FunctionReference context;
  Napi::FunctionReference embedder;

  static Classes& of(Napi::Env env) { return *env.GetInstanceData<Classes>(); }
};

}  // namespace blockstep::llama
