// The module: the result of require() for blockstep_llama.node.
// src/executors/llama-cpp/native/binding.ts describes it.
#include "classes.h"
#include "context_object.h"
#include "embedder_object.h"
#include "library_object.h"
#include "model_object.h"

namespace blockstep::llama {
namespace {

/// Version of the interface between TypeScript and this addon.
/// src/executors/llama-cpp/native/addon.ts expects the same number.
constexpr double kAbi = 7;

Napi::Object define_module(Napi::Env env, Napi::Object exports) {
  auto* classes = new Classes;
  env.SetInstanceData(classes);  // takes ownership
  classes->model = Napi::Persistent(ModelObject::define_class(env));
  classes->context = Napi::Persistent(ContextObject::define_class(env));
  classes->embedder = Napi::Persistent(EmbedderObject::define_class(env));
  exports.Set("abi", Napi::Number::New(env, kAbi));
  exports.Set("load", Napi::Function::New(env, load_library, "load"));
  exports.Set("tryAttention", Napi::Function::New(env, run_trial, "tryAttention"));
  exports.Set("loadModel", Napi::Function::New(env, ModelObject::load, "loadModel"));
  return exports;
}

}  // namespace

NODE_API_MODULE(blockstep_llama, define_module)

}  // namespace blockstep::llama
