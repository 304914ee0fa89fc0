// Threads: those that compute in a context beside its own. Without them llama.cpp makes and joins threads in every call.
#pragma once

#include "api/library.h"

namespace blockstep::llama {

class Threads {
 public:
  /// Starts `count` - 1 threads, and attaches them to a context. @throws std::runtime_error
  Threads(const Library& library, api::llama_context* context, int count);
  /// To be called when the context has been freed.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  void (*free_)(api::ggml_threadpool*) = nullptr;
  api::ggml_threadpool* pool_ = nullptr;
};

}  // namespace blockstep::llama
