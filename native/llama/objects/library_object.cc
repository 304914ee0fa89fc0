#include "library_object.h"

#include "../attention/attention.h"
#include "arguments.h"
#include "classes.h"

namespace blockstep::llama {
namespace {

Napi::Value describe_devices(Napi::Env env, const Library& library) {
  auto devices = Napi::Array::New(env);
  for (std::size_t i = 0; i < library.ggml_backend_dev_count(); i++) {
    auto* device = library.ggml_backend_dev_get(i);
    std::size_t free = 0;
    std::size_t total = 0;
    library.ggml_backend_dev_memory(device, &free, &total);
    auto object = Napi::Object::New(env);
    object.Set("name", library.ggml_backend_dev_name(device));
    object.Set("description", library.ggml_backend_dev_description(device));
    const auto type = library.ggml_backend_dev_type(device);
    object.Set("isGpu", type == api::GGML_BACKEND_DEVICE_TYPE_GPU || type == api::GGML_BACKEND_DEVICE_TYPE_IGPU);
    object.Set("freeBytes", static_cast<double>(free));
    object.Set("totalBytes", static_cast<double>(total));
    devices.Set(devices.Length(), object);
  }
  return devices;
}

}  // namespace

Napi::Value load_library(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto options = info[0].As<Napi::Object>();
  const LibraryFiles files{text(options, "folder"), text(options, "ggmlBase"), text(options, "ggml"), text(options, "llama")};
  try {
    const Library& library = Library::load(files, text(options, "commit"));
    Classes::of(env).library = &library;
    auto object = Napi::Object::New(env);
    object.Set("version", library.llama_version());
    object.Set("commit", library.ggml_commit());
    object.Set("maxSequences", static_cast<double>(library.llama_max_parallel_sequences()));
    object.Set("devices", describe_devices(env, library));
    const Attention& attention = Attention::put(library, text(options, "attention"));
    object.Set("attention", attention.name());
    object.Set("attentionReason", attention.reason());
    return object;
  } catch (const std::runtime_error& error) {
    throw Napi::Error::New(env, error.what());
  }
}

Napi::Value run_trial(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto object = info[0].As<Napi::Object>();
  Trial trial;
  trial.type = static_cast<api::ggml_type>(integer(object, "type"));
  trial.key_size = integer(object, "keySize");
  trial.value_size = integer(object, "valueSize");
  trial.kv_heads = integer(object, "kvHeads");
  trial.group = integer(object, "group");
  trial.rows = integer(object, "rows");
  trial.cells = integer(object, "cells");
  trial.cap = static_cast<float>(number(object, "cap"));
  trial.has_sinks = boolean(object, "hasSinks");
  trial.has_biases = boolean(object, "hasBiases");
  trial.threads = integer(object, "threads");
  trial.seed = static_cast<uint32_t>(integer(object, "seed"));
  trial.pattern = integer(object, "pattern");
  try {
    const TrialResult result = try_attention(library_of(env), trial);
    auto answer = Napi::Object::New(env);
    answer.Set("wasOurs", result.was_ours);
    answer.Set("distance", result.distance);
    answer.Set("isSameAlone", result.is_same_alone);
    return answer;
  } catch (const std::runtime_error& error) {
    throw Napi::Error::New(env, error.what());
  }
}

const Library& library_of(Napi::Env env) {
  const Library* library = Classes::of(env).library;
  if (library == nullptr) throw Napi::Error::New(env, "llama.cpp is not loaded");
  return *library;
}

}  // namespace blockstep::llama
