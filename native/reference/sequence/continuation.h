// Continuation: the "language model" of the reference executor. It continues a text in the way that
// the text continued before.
#pragma once

#include <vector>

#include "../../core/base/types.h"

namespace blockstep {

/// Mixes two 32-bit words into one: MurmurHash3's finaliser, twice. mix() of src/base/random.ts is
/// the same function, so that other code can compute this model's tokens.
inline u32 mix32(u32 a, u32 b) {
  const auto scramble = [](u32 h) {
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
  };
  return scramble(scramble(a + 0x9e3779b9u) + b * 0x9e3779b1u);
}

class Continuation {
 public:
  Continuation(u32 seed, std::int32_t eos_token) : seed_(seed), eos_token_(eos_token) {}

  /// The token that follows a text of `count` >= 1 tokens, whose first `num_prompt` >= 1 tokens are
  /// the prompt.
  ///
  /// The rule: find the longest earlier occurrence of the text's end, and return the token that
  /// followed it. Occurrences may overlap, and the earliest of equally long ones is used. If that
  /// token was generated, the text would begin to repeat itself, so the end-of-text token is
  /// returned instead, if there is one. If the last token never occurred before, return a token of
  /// the prompt, drawn by seed, length and last token. @throws std::bad_alloc
  std::int32_t next(const std::int32_t* text, u32 count, u32 num_prompt);

 private:
  u32 source(const std::int32_t* text, u32 count);

  u32 seed_;
  std::int32_t eos_token_;
  std::vector<u32> common_;  // scratch of source()
};

}  // namespace blockstep
