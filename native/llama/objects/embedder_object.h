// EmbedderObject: an embedder as a JavaScript object. It computes in a thread of libuv's pool.
#pragma once

#include <napi.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "../embed/embedder.h"
#include "async_task.h"

namespace blockstep::llama {

class EmbedderObject : public Napi::ObjectWrap<EmbedderObject> {
 public:
  static Napi::Function define_class(Napi::Env env) {
    return DefineClass(env, "LlamaEmbedder",
                       {InstanceMethod("embed", &EmbedderObject::embed), InstanceMethod("width", &EmbedderObject::width),
                        InstanceMethod("pooling", &EmbedderObject::pooling), InstanceMethod("dispose", &EmbedderObject::dispose)});
  }

  explicit EmbedderObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EmbedderObject>(info) {
    if (!info[0].IsExternal()) throw Napi::TypeError::New(info.Env(), "embedders are made by models");
    embedder_ = *info[0].As<Napi::External<std::shared_ptr<Embedder>>>().Data();
    napi_add_env_cleanup_hook(info.Env(), end_with_environment, this);
  }

  ~EmbedderObject() override {
    napi_remove_env_cleanup_hook(Env(), end_with_environment, this);
    end_with_environment(this);
  }

 private:
  static void end_with_environment(void* self) { static_cast<EmbedderObject*>(self)->embedder_->stop(); }

  /// embed(tokens, lengths): a promise of [texts, width] numbers.
  Napi::Value embed(const Napi::CallbackInfo& info) {
    const auto copied = [](const Napi::Int32Array& array) { return std::vector<int32_t>(array.Data(), array.Data() + array.ElementLength()); };
    auto vectors = std::make_shared<std::vector<float>>();
    const auto work = [embedder = embedder_, tokens = copied(info[0].As<Napi::Int32Array>()),
                       lengths = copied(info[1].As<Napi::Int32Array>()), vectors] { *vectors = embedder->embed(tokens, lengths); };
    return AsyncTask::start(info.Env(), work, [vectors](Napi::Env env) {
      auto array = Napi::Float32Array::New(env, vectors->size());
      std::copy(vectors->begin(), vectors->end(), array.Data());
      return array.As<Napi::Value>();
    });
  }

  Napi::Value width(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), embedder_->width()); }
  Napi::Value pooling(const Napi::CallbackInfo& info) { return Napi::Number::New(info.Env(), embedder_->pooling()); }

  Napi::Value dispose(const Napi::CallbackInfo& info) {
    embedder_->stop();
    return info.Env().Undefined();
  }

  std::shared_ptr<Embedder> embedder_;
};

}  // namespace blockstep::llama
