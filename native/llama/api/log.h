// Log: what llama.cpp says while it works. It tells by its log alone why a call failed.
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

  /// What was logged as an error since, in one line; or `otherwise`.
  std::string errors(const char* otherwise) const;

  /// The callback that llama.cpp is given. Threads that keep nothing drop what they are told.
  static void take(api::ggml_log_level level, const char* text, void* user_data);

 private:
  std::string text_;
  Log* outer_;
};

}  // namespace blockstep::llama
