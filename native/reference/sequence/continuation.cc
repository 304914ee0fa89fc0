#include "continuation.h"

#include <algorithm>

namespace blockstep {

std::int32_t Continuation::next(const std::int32_t* text, u32 count, u32 num_prompt) {
  const u32 from = source(text, count);
  if (from == kNone) {
    const auto last = static_cast<u32>(text[count - 1]);
    return text[mix32(mix32(seed_, count), last) % num_prompt];
  }
  return from >= num_prompt && eos_token_ >= 0 ? eos_token_ : text[from];
}

/// Index of the token behind the longest earlier occurrence of the text's end, or kNone. Applies
/// the Z-algorithm to the text read backwards: common_[i] is the length of the common suffix of
/// text[.. count - i) and text (Gusfield, "Algorithms on Strings, Trees and Sequences", 1.3).
/// Linear in the length.
u32 Continuation::source(const std::int32_t* text, u32 count) {
  if (common_.size() < count) common_.resize(std::max<std::size_t>(count, 2 * common_.size()));
  const std::int32_t* last = text + count - 1;
  u32 best = 0;
  u32 from = kNone;
  u32 left = 0;  // [left, right) is the common part with the largest end
  u32 right = 0;
  for (u32 i = 1; i < count; ++i) {
    u32 length = i < right ? std::min(right - i, common_[i - left]) : 0;
    while (i + length < count && *(last - length) == *(last - i - length)) ++length;
    if (i + length > right) {
      left = i;
      right = i + length;
    }
    common_[i] = length;
    if (length > 0 && length >= best) {
      best = length;
      from = count - i;
    }
  }
  return from;
}

}  // namespace blockstep
