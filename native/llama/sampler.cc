#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "api/log.h"

namespace blockstep::llama {
namespace {

/// A number in [0, 1) that depends only on both values (the mixing function of splitmix64).
double draw(uint64_t seed, int position) {
  uint64_t z = seed + 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(position) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

/// The index of the largest number, the first if several are equal; -1 if no number is above minus
/// infinity.
int largest(const float* values, std::size_t count) {
  float most = -std::numeric_limits<float>::infinity();
  int found = -1;
  for (std::size_t i = 0; i < count; i++)
    if (values[i] > most) {
      most = values[i];
      found = static_cast<int>(i);
    }
  return found;
}

bool has_penalties(const SamplerConfig& config) {
  return config.repetition_penalty != 1 || config.frequency_penalty != 0 || config.presence_penalty != 0;
}

}  // namespace

Sampler::Sampler(std::shared_ptr<const Weights> weights, SamplerConfig config)
    : weights_(std::move(weights)),
      config_(std::move(config)),
      num_tokens_(static_cast<std::size_t>(weights_->num_tokens())),
      is_plain_(config_.temperature <= 0 && config_.bias.empty() && config_.grammar.empty() && !has_penalties(config_)) {
  const Library& library = weights_->library;
  const auto add = [&](api::llama_sampler* filter) { filters_.emplace_back(filter, FreeSampler{&library}); };
  if (config_.temperature > 0) {
    if (config_.top_k > 0) add(library.llama_sampler_init_top_k(config_.top_k));
    if (config_.top_p < 1) add(library.llama_sampler_init_top_p(static_cast<float>(config_.top_p), 1));
    if (config_.min_p > 0) add(library.llama_sampler_init_min_p(static_cast<float>(config_.min_p), 1));
  }
  if (has_penalties(config_)) generated_counts_.assign(num_tokens_, 0);
  if (config_.repetition_penalty != 1) {
    in_prompt_.assign(num_tokens_, 0);
    for (const api::llama_token token : config_.prompt) in_prompt_[static_cast<std::size_t>(token)] = 1;
  }
  if (!is_plain_) candidates_.resize(num_tokens_);
}

Sampler::~Sampler() = default;

OwnedSampler make_grammar(const Weights& weights, const std::string& gbnf) {
  const Log log;
  api::llama_sampler* grammar = weights.library.llama_sampler_init_grammar(weights.vocab(), gbnf.c_str(), "root");
  if (grammar == nullptr) throw std::runtime_error(log.errors("it is no GBNF with a rule `root`"));
  return OwnedSampler(grammar, FreeSampler{&weights.library});
}

void Sampler::count(api::llama_token token, int by) {
  if (!generated_counts_.empty()) generated_counts_[static_cast<std::size_t>(token)] += by;
}

void Sampler::go_to(int position) {
  const int index = position - start_;
  const bool has_grammar = !config_.grammar.empty();
  if (index == static_cast<int>(generated_.size()) && has_grammar == (grammar_ != nullptr)) return;
  const bool is_back = index >= 0 && index < static_cast<int>(generated_.size());
  const std::size_t kept = is_back ? static_cast<std::size_t>(index) : 0;
  for (std::size_t i = kept; i < generated_.size(); i++) count(generated_[i], -1);
  generated_.resize(kept);
  if (!is_back) start_ = position;
  if (!has_grammar) return;
  // Done here, because large grammars take long and must not block the event loop.
  grammar_ = make_grammar(*weights_, config_.grammar);
  for (const api::llama_token token : generated_) weights_->library.llama_sampler_accept(grammar_.get(), token);
}

Sampled Sampler::sample(const float* logits, int position) {
  go_to(position);
  Sampled sampled;
  if (is_plain_) {
    sampled.token = largest(logits, num_tokens_);
  } else {
    candidates_.resize(num_tokens_);
    for (std::size_t i = 0; i < num_tokens_; i++) candidates_[i] = {static_cast<api::llama_token>(i), logits[i], 0};
    for (const auto& [token, bias] : config_.bias) candidates_[static_cast<std::size_t>(token)].logit += bias;
    penalize();
    sampled.token = pick(position);
  }
  if (sampled.token < 0) return sampled;
  if (grammar_ != nullptr) weights_->library.llama_sampler_accept(grammar_.get(), sampled.token);
  generated_.push_back(sampled.token);
  count(sampled.token, 1);
  if (config_.num_logprobs >= 0) describe(logits, num_tokens_, config_.num_logprobs, sampled);
  return sampled;
}

/// Like in vLLM: the repetition penalty counts prompt and answer, the two others only the answer.
void Sampler::penalize() {
  if (generated_counts_.empty()) return;
  const auto repetition = static_cast<float>(config_.repetition_penalty);
  for (std::size_t i = 0; i < num_tokens_; i++) {
    const int count = generated_counts_[i];
    float& logit = candidates_[i].logit;
    if (count > 0 || (!in_prompt_.empty() && in_prompt_[i] != 0))
      logit = logit > 0 ? logit / repetition : logit * repetition;
    if (count > 0)
      logit -= static_cast<float>(config_.frequency_penalty * count + config_.presence_penalty);
  }
}

api::llama_token Sampler::pick(int position) {
  const Library& library = weights_->library;
  // Checking all tokens against the grammar takes long, so the likeliest token without the grammar
  // is checked first.
  for (const bool is_constrained : {false, true}) {
    if (is_constrained && grammar_ == nullptr) break;
    std::vector<api::llama_token_data> given;
    if (!is_constrained && grammar_ != nullptr) given = candidates_;
    api::llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
    if (is_constrained) library.llama_sampler_apply(grammar_.get(), &array);
    for (const OwnedSampler& filter : filters_) library.llama_sampler_apply(filter.get(), &array);
    float most = -std::numeric_limits<float>::infinity();
    api::llama_token likeliest = -1;
    for (std::size_t i = 0; i < array.size; i++) {
      const auto& [id, logit, p] = array.data[i];
      // Filters sort, so of equal logits the token with the lowest id is taken.
      if (logit > most || (logit == most && likeliest >= 0 && id < likeliest)) {
        most = logit;
        likeliest = id;
      }
    }
    api::llama_token token = likeliest;
    if (likeliest >= 0 && config_.temperature > 0) {
      std::sort(array.data, array.data + array.size, [](const auto& a, const auto& b) { return a.id < b.id; });
      double total = 0;
      for (std::size_t i = 0; i < array.size; i++)
        total += std::exp((static_cast<double>(array.data[i].logit) - most) / config_.temperature);
      double left = draw(config_.seed, position) * total;
      for (std::size_t i = 0; i < array.size; i++) {
        const double share = std::exp((static_cast<double>(array.data[i].logit) - most) / config_.temperature);
        if (share > 0) token = array.data[i].id;
        left -= share;
        if (left < 0) break;
      }
    }
    if (grammar_ == nullptr || is_constrained || (token >= 0 && allows(token))) return token;
    candidates_ = std::move(given);
  }
  return -1;
}

bool Sampler::allows(api::llama_token token) {
  api::llama_token_data one{token, 1, 0};
  api::llama_token_data_array array{&one, 1, -1, false};
  weights_->library.llama_sampler_apply(grammar_.get(), &array);
  return one.logit == 1;
}

void describe(const float* logits, std::size_t num_tokens, int num_likeliest, Sampled& sampled) {
  const int best = largest(logits, num_tokens);
  const double most = logits[best];
  double total = 0;
  for (std::size_t i = 0; i < num_tokens; i++) total += std::exp(static_cast<double>(logits[i]) - most);
  const double log_total = most + std::log(total);
  const auto logprob = [&](api::llama_token token) {
    return static_cast<float>(static_cast<double>(logits[token]) - log_total);
  };
  sampled.logprob = logprob(sampled.token);
  const auto count = std::min(static_cast<std::size_t>(num_likeliest), num_tokens);
  if (count == 0) return;
  std::vector<api::llama_token> ids(num_tokens);
  std::iota(ids.begin(), ids.end(), 0);
  const auto by_logit = [&](api::llama_token a, api::llama_token b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), by_logit);
  for (std::size_t i = 0; i < count; i++) sampled.likeliest.emplace_back(ids[i], logprob(ids[i]));
}

}  // namespace blockstep::llama
