// Weights: a model's weights and vocabulary in memory. Contexts share them, and they live until the
// last owner releases them. All methods except the constructor may be called from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "api/library.h"

namespace blockstep::llama {

struct WeightsConfig {
  std::string path;
  int gpu_layers = 0;  // below 0: all
  bool memory_map = true;
  bool check_tensors = false;
  std::vector<std::string> adapters;  // files of LoRA adapters
};

class Weights {
 public:
  /// Loads a file and its adapters, which takes long. Adapters are loaded here alone: every context
  /// of the model reads llama.cpp's list of them without a lock.
  /// @param progress gets shares from 0 to 1; its result false ends the loading
  /// @throws std::runtime_error with llama.cpp's message
  Weights(const Library& library, const WeightsConfig& config, const std::function<bool(float)>& progress);
  ~Weights();
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  const Library& library;

  api::llama_model* model() const { return model_; }
  const api::llama_vocab* vocab() const { return vocab_; }
  int num_tokens() const { return num_tokens_; }
  int num_adapters() const { return static_cast<int>(adapters_.size()); }
  /// A LoRA adapter by its number, in the order of the config. It lives as long as the model.
  api::llama_adapter_lora* adapter(int number) const { return adapters_[static_cast<std::size_t>(number)]; }
  /// Whether the model is recurrent, or has recurrent layers, whose state only moves forward.
  bool keeps_state() const;

  /// A value of the file's metadata as text; empty if there is none.
  std::string metadata(const char* key) const;
  std::string description() const;
  /// Takes a stack as large as the text needs, in any calling thread.
  /// @throws std::runtime_error for a text that cannot be tokenized, or has a word that is too long
  std::vector<api::llama_token> tokenize(const std::string& text, bool add_special, bool parse_special) const;
  /// Bytes of the longest token, including the names of special tokens.
  int longest_token() const;
  /// The bytes of a token of the vocabulary.
  std::string piece(api::llama_token token, bool special) const;

 private:
  /// The same for SentencePiece, in parts, because llama.cpp's time is quadratic in the number of
  /// characters that no token has.
  std::vector<api::llama_token> tokenize_parts(const std::string& text, bool add_special, bool parse_special) const;
  std::vector<api::llama_token> tokenize_here(const std::string& text, bool add_special, bool parse_special) const;

  api::llama_model* model_ = nullptr;
  const api::llama_vocab* vocab_ = nullptr;
  int num_tokens_ = 0;
  std::vector<api::llama_adapter_lora*> adapters_;
  /// Whether patterns cut a text into words.
  bool has_patterns_ = true;
  /// With SentencePiece: the characters that some token has, in UTF-8.
  std::unordered_set<std::string> known_characters_;
};

}  // namespace blockstep::llama
