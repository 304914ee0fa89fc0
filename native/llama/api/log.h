// Log: the messages of llama.cpp during a call. Only its log explains why a call failed.
#pragma once

#include <string>

#include "library.h"

namespace blockstep::llama {

class Log {
 public:
  /// Begins to keep the errors that llama.cpp logs in this thread.
  Log();
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// The logged errors since then, in one line; or `otherwise`.
  std::string errors(const char* otherwise) const;

  /// The callback for llama.cpp. Threads without a Log drop the messages.
  static void take(api::ggml_log_level level, const char* text, void* user_data);

 private:
  std::string text_;
  Log* outer_;
};

}  // namespace blockstep::llama
