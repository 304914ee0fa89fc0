// ModelObject: the weights of a model as a JavaScript object.
#pragma once

#include <napi.h>

#include <memory>

#include "../weights.h"

namespace blockstep::llama {

class ModelObject : public Napi::ObjectWrap<ModelObject> {
 public:
  static Napi::Function define_class(Napi::Env env);

  /// loadModel(path, { gpuLayers, memoryMap, checkTensors, adapters }, progress, cancelled): a promise of a
  /// model. `progress` gets shares from 0 to 1. Loading ends once `cancelled[0]` is not 0.
  static Napi::Value load(const Napi::CallbackInfo& info);

  explicit ModelObject(const Napi::CallbackInfo& info);

 private:
  const Weights& weights(Napi::Env env) const;
  Napi::Value info(const Napi::CallbackInfo& info);
  Napi::Value tokenize(const Napi::CallbackInfo& info);
  Napi::Value tokenize_async(const Napi::CallbackInfo& info);
  Napi::Value piece(const Napi::CallbackInfo& info);
  Napi::Value check_grammar(const Napi::CallbackInfo& info);
  Napi::Value check_grammar_async(const Napi::CallbackInfo& info);
  Napi::Value create_context(const Napi::CallbackInfo& info);
  Napi::Value create_embedder(const Napi::CallbackInfo& info);
  Napi::Value dispose(const Napi::CallbackInfo& info);

  std::shared_ptr<const Weights> weights_;
};

}  // namespace blockstep::llama
