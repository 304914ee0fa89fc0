#include "model_object.h"

#include <cmath>
#include <vector>

#include "../embed/embedder.h"
#include "../runner.h"
#include "arguments.h"
#include "async_task.h"
#include "classes.h"
#include "library_object.h"

namespace blockstep::llama {
namespace {

Napi::Value text_or_null(Napi::Env env, const std::string& text) {
  return text.empty() ? env.Null() : Napi::String::New(env, text).As<Napi::Value>();
}

void read_context(const Napi::Object& object, ContextConfig& config) {
  config.threads = integer(object, "threads");
  config.type_k = integer(object, "typeK");
  config.type_v = integer(object, "typeV");
  config.flash_attention = integer(object, "flashAttention");
}

RunnerConfig read_runner(const Napi::Object& object) {
  RunnerConfig config;
  read_context(object, config);
  config.cells = integer(object, "cells");
  config.batch = integer(object, "batch");
  config.micro_batch = integer(object, "microBatch");
  config.sequences = integer(object, "sequences");
  config.outputs = integer(object, "outputs");
  config.batch_threads = integer(object, "batchThreads");
  config.on_gpu = boolean(object, "offloadCache");
  return config;
}

Napi::Value array_of(Napi::Env env, const std::vector<api::llama_token>& tokens) {
  auto array = Napi::Int32Array::New(env, tokens.size());
  std::copy(tokens.begin(), tokens.end(), array.Data());
  return array;
}

}  // namespace

Napi::Function ModelObject::define_class(Napi::Env env) {
  return DefineClass(env, "LlamaModel",
                     {InstanceMethod("info", &ModelObject::info), InstanceMethod("tokenize", &ModelObject::tokenize),
                      InstanceMethod("tokenizeAsync", &ModelObject::tokenize_async),
                      InstanceMethod("piece", &ModelObject::piece),
                      InstanceMethod("checkGrammar", &ModelObject::check_grammar),
                      InstanceMethod("checkGrammarAsync", &ModelObject::check_grammar_async),
                      InstanceMethod("createContext", &ModelObject::create_context),
                      InstanceMethod("createEmbedder", &ModelObject::create_embedder),
                      InstanceMethod("dispose", &ModelObject::dispose)});
}

ModelObject::ModelObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ModelObject>(info) {
  if (!info[0].IsExternal()) throw Napi::TypeError::New(info.Env(), "models are loaded");
  weights_ = *info[0].As<Napi::External<std::shared_ptr<const Weights>>>().Data();
}

Napi::Value ModelObject::load(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Library& library = library_of(env);
  WeightsConfig config;
  config.path = info[0].As<Napi::String>();
  const auto options = info[1].As<Napi::Object>();
  config.gpu_layers = integer(options, "gpuLayers");
  config.memory_map = boolean(options, "memoryMap");
  config.check_tensors = boolean(options, "checkTensors");
  config.adapters = texts(options, "adapters");
  auto progress = Napi::ThreadSafeFunction::New(env, info[2].As<Napi::Function>(), "blockstep.llama.load", 0, 1);
  progress.Unref(env);
  const auto flag = info[3].As<Napi::Int32Array>();
  auto kept_flag = std::make_shared<Napi::ObjectReference>(Napi::Persistent(flag.As<Napi::Object>()));
  const int32_t* cancelled = flag.Data();
  auto weights = std::make_shared<std::shared_ptr<const Weights>>();
  const auto work = [&library, config, progress, cancelled, weights] {
    int told = -1;
    const std::function<bool(float)> tell = [&](float share) {
      // llama.cpp reports progress for every tensor.
      const int percent = static_cast<int>(std::floor(share * 100));
      if (percent != told) progress.NonBlockingCall([share](Napi::Env, Napi::Function callback) { callback.Call({Napi::Number::New(callback.Env(), share)}); });
      told = percent;
      return *static_cast<const volatile int32_t*>(cancelled) == 0;
    };
    *weights = std::make_shared<const Weights>(library, config, tell);
  };
  const auto finish = [weights](Napi::Env own) {
    return Classes::of(own).model.New({Napi::External<std::shared_ptr<const Weights>>::New(own, weights.get())}).As<Napi::Value>();
  };
  auto released = progress;
  return AsyncTask::start(env, work, finish, [released, kept_flag]() mutable {
    released.Release();
    kept_flag->Reset();
  });
}

const Weights& ModelObject::weights(Napi::Env env) const {
  if (weights_ == nullptr) throw Napi::Error::New(env, "the model was disposed");
  return *weights_;
}

Napi::Value ModelObject::info(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Weights& weights = this->weights(env);
  const Library& library = weights.library;
  auto* model = weights.model();
  const auto* vocab = weights.vocab();
  auto object = Napi::Object::New(env);
  object.Set("architecture", weights.metadata("general.architecture"));
  object.Set("name", text_or_null(env, weights.metadata("general.name")));
  object.Set("description", weights.description());
  object.Set("numTokens", weights.num_tokens());
  object.Set("contextLength", library.llama_model_n_ctx_train(model));
  object.Set("numLayers", library.llama_model_n_layer(model));
  object.Set("slidingWindow", library.llama_model_n_swa(model));
  object.Set("isRecurrent", library.llama_model_is_recurrent(model));
  object.Set("isHybrid", library.llama_model_is_hybrid(model));
  object.Set("isDiffusion", library.llama_model_is_diffusion(model));
  object.Set("hasEncoder", library.llama_model_has_encoder(model));
  object.Set("hasDecoder", library.llama_model_has_decoder(model));
  object.Set("bytes", static_cast<double>(library.llama_model_size(model)));
  object.Set("numParameters", static_cast<double>(library.llama_model_n_params(model)));
  object.Set("bos", library.llama_vocab_bos(vocab));
  object.Set("eos", library.llama_vocab_eos(vocab));
  object.Set("eot", library.llama_vocab_eot(vocab));
  object.Set("sep", library.llama_vocab_sep(vocab));
  object.Set("addsSep", library.llama_vocab_get_add_sep(vocab));
  object.Set("addsBos", library.llama_vocab_get_add_bos(vocab));
  object.Set("addsEos", library.llama_vocab_get_add_eos(vocab));
  const char* rank_template = library.llama_model_chat_template(model, "rerank");
  object.Set("rankTemplate", text_or_null(env, rank_template == nullptr ? "" : rank_template));
  const char* chat_template = library.llama_model_chat_template(model, nullptr);
  object.Set("chatTemplate", text_or_null(env, chat_template == nullptr ? "" : chat_template));
  auto ends = Napi::Array::New(env);
  for (int token = 0; token < weights.num_tokens(); token++)
    if (library.llama_vocab_is_eog(vocab, token)) ends.Set(ends.Length(), token);
  object.Set("endTokens", ends);
  object.Set("longestToken", weights.longest_token());
  return object;
}

Napi::Value ModelObject::tokenize(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const std::string text = info[0].As<Napi::String>();
  try {
    return array_of(env, weights(env).tokenize(text, info[1].ToBoolean(), info[2].ToBoolean()));
  } catch (const std::exception& error) {
    throw Napi::Error::New(env, error.what());
  }
}

Napi::Value ModelObject::tokenize_async(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  weights(env);
  const auto text = std::make_shared<const std::string>(info[0].As<Napi::String>());
  const bool add_special = info[1].ToBoolean();
  const bool parse_special = info[2].ToBoolean();
  auto tokens = std::make_shared<std::vector<api::llama_token>>();
  const auto work = [weights = weights_, text, add_special, parse_special, tokens] {
    *tokens = weights->tokenize(*text, add_special, parse_special);
  };
  return AsyncTask::start(env, work, [tokens](Napi::Env own) { return array_of(own, *tokens); });
}

Napi::Value ModelObject::piece(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Weights& weights = this->weights(env);
  const int token = info[0].As<Napi::Number>();
  if (token < 0 || token >= weights.num_tokens()) throw Napi::RangeError::New(env, "the token must be from 0 to " + std::to_string(weights.num_tokens() - 1) +
                                         ", got " + std::to_string(token));
  const std::string bytes = weights.piece(token, info[1].ToBoolean());
  auto array = Napi::Uint8Array::New(env, bytes.size());
  std::copy(bytes.begin(), bytes.end(), array.Data());
  return array;
}

Napi::Value ModelObject::check_grammar(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  weights(env);
  try {
    make_grammar(*weights_, info[0].As<Napi::String>());
  } catch (const std::exception& error) {
    throw Napi::Error::New(env, error.what());
  }
  return env.Undefined();
}

Napi::Value ModelObject::check_grammar_async(const Napi::CallbackInfo& info) {
  weights(info.Env());
  const auto work = [weights = weights_, grammar = std::string(info[0].As<Napi::String>())] {
    make_grammar(*weights, grammar);
  };
  return AsyncTask::start(info.Env(), work, [](Napi::Env own) { return own.Undefined(); });
}

Napi::Value ModelObject::create_context(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  weights(env);
  const RunnerConfig config = read_runner(info[0].As<Napi::Object>());
  auto runner = std::make_shared<std::unique_ptr<Runner>>();
  const auto work = [weights = weights_, config, runner] { *runner = std::make_unique<Runner>(weights, config); };
  const auto finish = [runner](Napi::Env own) {
    return Classes::of(own).context.New({Napi::External<std::unique_ptr<Runner>>::New(own, runner.get())}).As<Napi::Value>();
  };
  return AsyncTask::start(env, work, finish);
}

Napi::Value ModelObject::create_embedder(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  weights(env);
  const auto options = info[0].As<Napi::Object>();
  EmbedderConfig config;
  read_context(options, config);
  config.batch = integer(options, "batch");
  config.sequences = integer(options, "sequences");
  config.pooling = integer(options, "pooling");
  config.on_gpu = boolean(options, "onGpu");
  auto embedder = std::make_shared<std::shared_ptr<Embedder>>();
  const auto work = [weights = weights_, config, embedder] { *embedder = std::make_shared<Embedder>(weights, config); };
  const auto finish = [embedder](Napi::Env own) {
    return Classes::of(own).embedder.New({Napi::External<std::shared_ptr<Embedder>>::New(own, embedder.get())}).As<Napi::Value>();
  };
  return AsyncTask::start(env, work, finish);
}

Napi::Value ModelObject::dispose(const Napi::CallbackInfo& info) {
  weights_.reset();
  return info.Env().Undefined();
}

}  // namespace blockstep::llama
