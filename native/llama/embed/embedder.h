// Embedder: a context of llama.cpp that computes vectors or scores of texts, and generates no
// tokens. It keeps no state between two calls.
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
  // How the vectors of a text's tokens become one vector; unspecified: the model's method.
  int pooling = api::LLAMA_POOLING_TYPE_UNSPECIFIED;
};

class Embedder {
 public:
  /// Makes the context, which may take long.
  /// @throws std::runtime_error with llama.cpp's message, for example if memory runs out
  Embedder(std::shared_ptr<const Weights> weights, const EmbedderConfig& config);
  /// Ends like `stop`.
  ~Embedder();
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;

  /// Length of a text's vector.
  int width() const { return width_; }
  /// A value of llama.cpp's enumeration.
  int pooling() const { return pooling_; }

  /// Computes the vectors of texts in one call of llama.cpp, from any thread. Calls wait for each
  /// other.
  /// @param tokens of all texts, concatenated
  /// @param lengths number of tokens of each text
  /// @returns [texts, width]
  /// @throws std::runtime_error for texts that exceed the embedder's limits, with llama.cpp's
  /// message, and after `stop`
  std::vector<float> embed(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths);

  /// Aborts the current computation, as far as llama.cpp supports it, and frees the context.
  void stop();

 private:
  void check(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths) const;

  const std::shared_ptr<const Weights> weights_;
  const Library& library_;
  const EmbedderConfig config_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::unique_ptr<Context> context_;  // null after `stop`
  int width_ = 0;
  int pooling_ = 0;
};

}  // namespace blockstep::llama
