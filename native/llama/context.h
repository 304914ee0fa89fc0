// Context: one context of llama.cpp, and its threads, which compute beside the caller's thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "weights.h"

namespace blockstep::llama {

/// Options of every context.
struct ContextConfig {
  int threads = 1;
  int type_k = api::GGML_TYPE_F16;
  int type_v = api::GGML_TYPE_F16;
  int flash_attention = api::LLAMA_FLASH_ATTN_TYPE_AUTO;
  bool on_gpu = false;
};

class Context {
 public:
  /// Makes the context, which may take long.
  /// @param params llama.cpp's own, with the sizes
  /// @param stopping aborts the computation once it is true, as far as llama.cpp supports it
  /// @throws std::runtime_error with llama.cpp's message, for example if memory runs out
  Context(const Weights& weights, const ContextConfig& config, api::llama_context_params params, const std::atomic<bool>& stopping);

  /// Starts `count` - 1 threads, which compute until the context is freed. Without them llama.cpp
  /// makes and joins threads in every call.
  /// @throws std::runtime_error
  void start_threads(int count);

  api::llama_context* get() const { return context_.get(); }

 private:
  const Library& library_;
  // The threads end after the context.
  std::unique_ptr<api::ggml_threadpool, void (*)(api::ggml_threadpool*)> threads_{nullptr, nullptr};
  std::unique_ptr<api::llama_context, void (*)(api::llama_context*)> context_;
};

/// Describes a status of llama_decode other than 0.
std::string decode_failure(int status);

}  // namespace blockstep::llama
