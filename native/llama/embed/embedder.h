// Embedder: a context of llama.cpp that makes vectors of texts, or scores, and generates none. It keeps nothing between two calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "../context.h"

namespace blockstep::llama {

struct EmbedderConfig : ContextConfig {
  int batch = 0;      // most tokens of a call, and of a text
  int sequences = 0;  // most texts of a call
  int pooling = api::LLAMA_POOLING_TYPE_UNSPECIFIED;  // how the vectors of a text's tokens become one; unspecified: as the model has it
};

class Embedder {
 public:
  /// Makes the context, which may take long.
  /// @throws std::runtime_error with what llama.cpp said, for instance for want of memory
  Embedder(std::shared_ptr<const Weights> weights, const EmbedderConfig& config);
  /// Ends as `stop`.
  ~Embedder();
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  /// Numbers of a text's vector.
  int width() const { return width_; }
  /// As llama.cpp numbers it.
  int pooling() const { return pooling_; }

  /// Computes the vectors of texts in one call of llama.cpp, from any thread. Calls wait for each other.
  /// @param tokens of all texts, one behind the other
  /// @param lengths tokens of each
  /// @returns [texts, width]
  /// @throws std::runtime_error for texts that the embedder was not made for, and with what llama.cpp said; after `stop`
  std::vector<float> embed(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths);

  /// Breaks off what is being computed, as far as llama.cpp can, and frees the context.
  void stop();

 private:
  void check(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths) const;

  const std::shared_ptr<const Weights> weights_;
  const Library& library_;
  const EmbedderConfig config_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::unique_ptr<Context> context_;  // null: it was stopped
  int width_ = 0;
  int pooling_ = 0;
};

}  // namespace blockstep::llama
