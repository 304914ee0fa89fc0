// Sampler: samples the next token of one request. Its random numbers depend only on seed and
// position, not on earlier calls, the batch or the sequence. A sampler therefore survives a
// preemption, and a position may be sampled again.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weights.h"

namespace blockstep::llama {

struct SamplerConfig {
  double temperature = 0;  // 0: always the likeliest token
  int top_k = 0;           // 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  double frequency_penalty = 0;
  double presence_penalty = 0;
  uint64_t seed = 0;
  int num_logprobs = -1;  // log-probabilities of the token and this many likeliest; below 0: none
  std::vector<std::pair<api::llama_token, float>> bias;
  std::vector<api::llama_token> prompt;  // only for the repetition penalty
  std::string grammar;                   // GBNF; empty: none
};

/// A token and, if requested, the model's log-probabilities before any penalty or temperature.
struct Sampled {
  api::llama_token token = -1;  // -1: no token has a probability
  float logprob = 0;
  std::vector<std::pair<api::llama_token, float>> likeliest;
};

/// Writes the log-probabilities of the token of `sampled` and of the likeliest tokens, from logits
/// of a whole vocabulary.
void describe(const float* logits, std::size_t num_tokens, int num_likeliest, Sampled& sampled);

struct FreeSampler {
  const Library* library;
  void operator()(api::llama_sampler* sampler) const { library->llama_sampler_free(sampler); }
};
using OwnedSampler = std::unique_ptr<api::llama_sampler, FreeSampler>;

/// @throws std::runtime_error if the grammar cannot be parsed
OwnedSampler make_grammar(const Weights& weights, const std::string& gbnf);

class Sampler {
 public:
  Sampler(std::shared_ptr<const Weights> weights, SamplerConfig config);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Samples the token at a position, and notes it as generated. Positions increase by one, or
  /// return to an earlier sampled position. The tokens generated from there on are then forgotten.
  /// Any other position begins a new text.
  /// @throws std::runtime_error if the grammar cannot be parsed
  Sampled sample(const float* logits, int position);

  int num_logprobs() const { return config_.num_logprobs; }

 private:
  void go_to(int position);
  void penalize();
  api::llama_token pick(int position);
  /// Whether the grammar allows a token now.
  bool allows(api::llama_token token);
  void count(api::llama_token token, int by);

  const std::shared_ptr<const Weights> weights_;
  const SamplerConfig config_;
  const std::size_t num_tokens_;
  const bool is_plain_;  // the token is always the likeliest token
  std::vector<OwnedSampler> filters_;
  OwnedSampler grammar_;
  int start_ = 0;                            // position of the first generated token
  std::vector<api::llama_token> generated_;  // from `start_` on
  std::vector<int> generated_counts_;        // [token] only with penalties
  std::vector<char> in_prompt_;              // [token] only with the repetition penalty
  std::vector<api::llama_token_data> candidates_;
};

}  // namespace blockstep::llama
