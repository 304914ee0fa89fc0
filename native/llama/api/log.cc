#include "log.h"

namespace blockstep::llama {
namespace {

/// Errors consist of a few lines. Longer text is truncated.
constexpr std::size_t kMost = 2000;

thread_local Log* current = nullptr;

}  // namespace

Log::Log() : outer_(current) { current = this; }

Log::~Log() { current = outer_; }

std::string Log::errors(const char* otherwise) const {
  std::string line;
  for (const char letter : text_) {
    if (letter != '\n') line += letter;
    else if (!line.empty() && line.back() != ';') line += ';';
  }
  while (!line.empty() && line.back() == ';') line.pop_back();
  return line.empty() ? otherwise : line;
}

void Log::take(api::ggml_log_level level, const char* text, void*) {
  if (current == nullptr || level != api::GGML_LOG_LEVEL_ERROR) return;
  if (current->text_.size() < kMost) current->text_ += text;
}

}  // namespace blockstep::llama
