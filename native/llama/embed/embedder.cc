#include "embedder.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "../api/log.h"

namespace blockstep::llama {

Embedder::Embedder(std::shared_ptr<const Weights> weights, const EmbedderConfig& config)
    : weights_(std::move(weights)), library_(weights_->library), config_(config) {
  auto params = library_.llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(config.batch);
  // A text is computed in one batch. Bidirectional models, and vectors of all tokens, require this.
  params.n_batch = params.n_ubatch = params.n_outputs_max = static_cast<uint32_t>(config.batch);
  params.n_seq_max = static_cast<uint32_t>(config.sequences);
  params.n_threads_batch = config.threads;
  params.pooling_type = static_cast<enum api::llama_pooling_type>(config.pooling);
  params.embeddings = true;
  context_ = std::make_unique<Context>(*weights_, config, params, stopping_);
  pooling_ = library_.llama_pooling_type(context_->get());
  width_ = pooling_ == api::LLAMA_POOLING_TYPE_RANK ? static_cast<int>(library_.llama_model_n_cls_out(weights_->model()))
                                                    : library_.llama_model_n_embd_out(weights_->model());
}

Embedder::~Embedder() { stop(); }

void Embedder::stop() {
  stopping_ = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  context_.reset();
}

void Embedder::check(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths) const {
  // llama.cpp aborts the process if a batch exceeds the sizes of its context.
  std::size_t sum = 0;
  for (const int32_t length : lengths) {
    if (length < 1 || length > config_.batch) throw std::runtime_error("a text has no token, or more than a call takes");
    sum += static_cast<std::size_t>(length);
  }
  if (lengths.empty() || lengths.size() > static_cast<std::size_t>(config_.sequences) || sum != tokens.size() ||
      sum > static_cast<std::size_t>(config_.batch))
    throw std::runtime_error("there are more texts, or tokens, than a call takes");
  for (const int32_t token : tokens)
    if (token < 0 || token >= weights_->num_tokens()) throw std::runtime_error("a token is not of the vocabulary");
}

std::vector<float> Embedder::embed(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths) {
  check(tokens, lengths);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (context_ == nullptr || stopping_) throw std::runtime_error("it was broken off");
  const Log log;
  auto* const context = context_->get();
  auto inputs = tokens;
  std::vector<int32_t> positions(tokens.size()), counts(tokens.size(), 1);
  std::vector<api::llama_seq_id> sequences(tokens.size());
  std::vector<api::llama_seq_id*> lists(tokens.size() + 1, nullptr);
  std::vector<int8_t> wanted(tokens.size(), 1);
  std::size_t at = 0;
  for (std::size_t text = 0; text < lengths.size(); text++)
    for (int32_t position = 0; position < lengths[text]; position++, at++) {
      positions[at] = position;
      sequences[at] = static_cast<api::llama_seq_id>(text);
      lists[at] = &sequences[at];
    }
  // Bidirectional models keep no state, and have no memory.
  if (auto* memory = library_.llama_get_memory(context); memory != nullptr) library_.llama_memory_clear(memory, false);
  const api::llama_batch batch{static_cast<int32_t>(tokens.size()), inputs.data(), nullptr, positions.data(), counts.data(), lists.data(),
                               wanted.data()};
  const int status = library_.llama_decode(context, batch);
  if (status != 0) throw std::runtime_error(decode_failure(status) + ": " + log.errors("llama.cpp gives no reason"));
  library_.llama_synchronize(context);
  const auto width = static_cast<std::size_t>(width_);
  std::vector<float> vectors(lengths.size() * width);
  for (std::size_t text = 0; text < lengths.size(); text++) {
    const float* vector = library_.llama_get_embeddings_seq(context, static_cast<api::llama_seq_id>(text));
    if (vector == nullptr) throw std::runtime_error("a text has no vector");
    std::copy(vector, vector + width, vectors.begin() + static_cast<std::ptrdiff_t>(text * width));
  }
  return vectors;
}

}  // namespace blockstep::llama
