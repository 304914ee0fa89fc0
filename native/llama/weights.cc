#include "weights.h"

#include <algorithm>
#include <stdexcept>

#include "api/log.h"
#include "deep_thread.h"

namespace blockstep::llama {
namespace {

/// Maximum bytes of a text that are matched as one word. llama.cpp's pre-tokenizers are std::regex
/// patterns, which recurse for every matched character. A word therefore needs stack in proportion
/// to its length.
constexpr std::size_t kLongestWord = 1 << 19;
/// Bytes of stack for a byte of a word: four times the measured maximum over all of llama.cpp's
/// patterns.
constexpr std::size_t kStackPerByte = 2048;
/// A word of this many bytes needs no more than the stack of any thread.
constexpr std::size_t kShortWord = 512;
constexpr std::size_t kLeastStack = 1 << 20;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_sign(char c) { return c > ' ' && c < 127 && !is_letter(c) && !is_digit(c); }
/// Characters that no pattern matches together with preceding letters or digits. Some patterns
/// match other punctuation.
bool ends_clause(char c) { return c == '.' || c == ',' || c == '!' || c == '?'; }
/// The first byte of a non-ASCII character that is no space.
bool begins_foreign(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0xc3 && byte != 0xe1 && byte != 0xe2 && byte != 0xe3;
}

/// Whether no pattern of llama.cpp continues from one character to the next. All other pairs may
/// continue, for example words after single spaces.
bool ends_word(char here, char next) {
  if (here == '\n') return is_letter(next) || begins_foreign(next);
  if (is_letter(here)) return next == '\n' || ends_clause(next);
  if (is_digit(here)) return next == ' ' || next == '\n' || ends_clause(next);
  return is_sign(here) && next == ' ';
}

/// Texts for SentencePiece with at least this many bytes are tokenized in parts.
constexpr std::size_t kPart = 4096;

/// Bytes of the UTF-8 character that begins at `at`; 1 for a byte that begins no character.
std::size_t character_size(const std::string& text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const std::size_t size = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
  return std::min(size, text.size() - at);
}

/// Bytes of the longest range of a text that a pattern may match as one word.
std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  std::size_t begin = 0;
  for (std::size_t i = 1; i < text.size(); i++) {
    if (!ends_word(text[i - 1], text[i])) continue;
    longest = std::max(longest, i - begin);
    begin = i;
  }
  return std::max(longest, text.size() - begin);
}

}  // namespace

Weights::Weights(const Library& loaded, const WeightsConfig& config, const std::function<bool(float)>& progress)
    : library(loaded) {
  const Log log;
  auto params = library.llama_model_default_params();
  // llama.cpp accepts any number of layers to offload, and even with 0 runs operations on a GPU if
  // it has devices.
  static api::ggml_backend_dev_t no_devices[] = {nullptr};
  if (config.gpu_layers == 0) params.devices = no_devices;
  params.n_gpu_layers = config.gpu_layers;
  params.load_mode = config.memory_map ? api::LLAMA_LOAD_MODE_AUTO : api::LLAMA_LOAD_MODE_NONE;
  params.check_tensors = config.check_tensors;
  params.progress_callback = [](float share, void* data) {
    return (*static_cast<const std::function<bool(float)>*>(data))(share);
  };
  params.progress_callback_user_data = const_cast<std::function<bool(float)>*>(&progress);
  model_ = library.llama_model_load_from_file(config.path.c_str(), params);
  if (model_ == nullptr) throw std::runtime_error(log.errors("llama.cpp gives no reason"));
  for (const std::string& path : config.adapters) {
    const Log own_log;
    auto* adapter = library.llama_adapter_lora_init(model_, path.c_str());
    if (adapter == nullptr) {
      // The destructor does not run. The model frees the adapters before this one.
      library.llama_model_free(model_);
      throw std::runtime_error("the adapter " + path + " cannot be loaded: " + own_log.errors("llama.cpp gives no reason"));
    }
    adapters_.push_back(adapter);
  }
  vocab_ = library.llama_model_get_vocab(model_);
  num_tokens_ = library.llama_vocab_n_tokens(vocab_);
  // SentencePiece has no patterns.
  has_patterns_ = metadata("tokenizer.ggml.model") != "llama";
  if (has_patterns_) return;
  // Texts have another character in its place.
  known_characters_.insert(" ");
  for (int token = 0; token < num_tokens_; token++) {
    // The text of a byte token is the hexadecimal number of the byte.
    const std::string bytes = library.llama_vocab_get_text(vocab_, token);
    for (std::size_t at = 0; at < bytes.size(); at += character_size(bytes, at))
      known_characters_.insert(bytes.substr(at, character_size(bytes, at)));
  }
}

Weights::~Weights() { library.llama_model_free(model_); }

bool Weights::keeps_state() const {
  return library.llama_model_is_recurrent(model_) || library.llama_model_is_hybrid(model_);
}

std::string Weights::metadata(const char* key) const {
  char text[512];
  const int length = library.llama_model_meta_val_str(model_, key, text, sizeof text);
  return length < 0 ? std::string() : std::string(text);
}

std::string Weights::description() const {
  char text[256];
  library.llama_model_desc(model_, text, sizeof text);
  return text;
}

std::vector<api::llama_token> Weights::tokenize(const std::string& text, bool add_special, bool parse_special) const {
  if (!has_patterns_) return tokenize_parts(text, add_special, parse_special);
  const std::size_t word = longest_word(text);
  if (word <= kShortWord) return tokenize_here(text, add_special, parse_special);
  if (word > kLongestWord)
    throw std::runtime_error("it must have at most " + std::to_string(kLongestWord) + " bytes in one word, got " +
                             std::to_string(word) + " bytes that may be one");
  std::vector<api::llama_token> tokens;
  run_deep(kLeastStack + word * kStackPerByte,
           [&] { tokens = tokenize_here(text, add_special, parse_special); });
  return tokens;
}

std::vector<api::llama_token> Weights::tokenize_parts(const std::string& text, bool add_special, bool parse_special) const {
  if (text.size() <= kPart) return tokenize_here(text, add_special, parse_special);
  std::vector<api::llama_token> tokens;
  if (add_special && library.llama_vocab_get_add_bos(vocab_)) tokens.push_back(library.llama_vocab_bos(vocab_));
  const auto add = [&](std::size_t begin, std::size_t end) {
    const auto part = tokenize_here(text.substr(begin, end - begin), false, parse_special);
    std::size_t before = 0;
    if (begin > 0) {
      // llama.cpp may put a space before every text. The next character then has the same number of
      // tokens each time.
      const std::string one = text.substr(begin, character_size(text, begin));
      before = 2 * tokenize_here(one, false, false).size() - tokenize_here(one + one, false, false).size();
    }
    tokens.insert(tokens.end(), part.begin() + static_cast<std::ptrdiff_t>(before), part.end());
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); at += character_size(text, at)) {
    // A character that no token has is not joined with its neighbours, so the tokens before it do
    // not belong to it.
    if (at - begin < kPart || known_characters_.count(text.substr(at, character_size(text, at))) > 0) continue;
    add(begin, at);
    begin = at;
  }
  add(begin, text.size());
  if (add_special && library.llama_vocab_get_add_eos(vocab_)) tokens.push_back(library.llama_vocab_eos(vocab_));
  return tokens;
}

int Weights::longest_token() const {
  std::size_t longest = 1;
  for (int token = 0; token < num_tokens_; token++) longest = std::max(longest, piece(token, true).size());
  return static_cast<int>(longest);
}

std::vector<api::llama_token> Weights::tokenize_here(const std::string& text, bool add_special, bool parse_special) const {
  const auto length = static_cast<int32_t>(text.size());
  std::vector<api::llama_token> tokens(text.size() + 8);
  for (;;) {
    const int count = library.llama_tokenize(vocab_, text.data(), length, tokens.data(),
                                             static_cast<int32_t>(tokens.size()), add_special, parse_special);
    if (count >= 0) {
      tokens.resize(static_cast<std::size_t>(count));
      return tokens;
    }
    if (count == INT32_MIN) throw std::runtime_error("the text has too many tokens");
    tokens.resize(static_cast<std::size_t>(-count));
  }
}

std::string Weights::piece(api::llama_token token, bool special) const {
  std::string bytes(64, '\0');
  for (;;) {
    const int count = library.llama_token_to_piece(vocab_, token, bytes.data(), static_cast<int32_t>(bytes.size()), 0, special);
    if (count >= 0) {
      bytes.resize(static_cast<std::size_t>(count));
      return bytes;
    }
    bytes.resize(static_cast<std::size_t>(-count));
  }
}

}  // namespace blockstep::llama
