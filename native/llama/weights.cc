#include "weights.h"

#include <stdexcept>

#include "api/log.h"

namespace blockstep::llama {

Weights::Weights(const Library& loaded, const WeightsConfig& config, const std::function<bool(float)>& progress)
    : library(loaded) {
  const Log log;
  auto params = library.llama_model_default_params();
  // llama.cpp takes any number of layers as one to offload, and puts operations on a GPU even at 0 while it has devices.
  static api::ggml_backend_dev_t no_devices[] = {nullptr};
  if (config.gpu_layers == 0) params.devices = no_devices;
  params.n_gpu_layers = config.gpu_layers;
  params.load_mode = config.memory_map ? api::LLAMA_LOAD_MODE_AUTO : api::LLAMA_LOAD_MODE_NONE;
  params.check_tensors = config.check_tensors;
  params.progress_callback = [](float share, void* data) {
    return (*static_cast<const std::function<bool(float)>*>(data))(share);
  };
  params.progress_callback_user_data = const_cast<std::function<bool(float)>*>(&progress);
  model_ = library.llama_model_load_from_file(config.path.c_str(), params);
  if (model_ == nullptr) throw std::runtime_error(log.errors("llama.cpp gives no reason"));
  vocab_ = library.llama_model_get_vocab(model_);
  num_tokens_ = library.llama_vocab_n_tokens(vocab_);
}

Weights::~Weights() { library.llama_model_free(model_); }

bool Weights::keeps_state() const {
  return library.llama_model_is_recurrent(model_) || library.llama_model_is_hybrid(model_);
}

std::string Weights::metadata(const char* key) const {
  char text[512];
  const int length = library.llama_model_meta_val_str(model_, key, text, sizeof text);
  return length < 0 ? std::string() : std::string(text);
}

std::string Weights::description() const {
  char text[256];
  library.llama_model_desc(model_, text, sizeof text);
  return text;
}

std::vector<api::llama_token> Weights::tokenize(const std::string& text, bool add_special, bool parse_special) const {
  const auto length = static_cast<int32_t>(text.size());
  std::vector<api::llama_token> tokens(text.size() + 8);
  for (;;) {
    const int count = library.llama_tokenize(vocab_, text.data(), length, tokens.data(),
                                             static_cast<int32_t>(tokens.size()), add_special, parse_special);
    if (count >= 0) {
      tokens.resize(static_cast<std::size_t>(count));
      return tokens;
    }
    if (count == INT32_MIN) throw std::runtime_error("the text has too many tokens");
    tokens.resize(static_cast<std::size_t>(-count));
  }
}

std::string Weights::piece(api::llama_token token, bool special) const {
  std::string bytes(64, '\0');
  for (;;) {
    const int count = library.llama_token_to_piece(vocab_, token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, special);
    if (count >= 0) {
      bytes.resize(static_cast<std::size_t>(count));
      return bytes;
    }
    bytes.resize(static_cast<std::size_t>(-count));
  }
}

}  // namespace blockstep::llama
