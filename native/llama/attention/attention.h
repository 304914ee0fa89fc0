// Attention: which kernel computes attention on the CPU, in all contexts of this process. Our
// kernel is first in llama.cpp's list of extra buffer types, which the CPU backend asks before each
// operation.
#pragma once

#include <string>

#include "kernel.h"

namespace blockstep::llama {

class Attention {
 public:
  /**
   * Installs our kernel, tries it, and removes it again if it is wrong.
   * @param wish empty: the fastest body for this processor. `llama`: none. Otherwise the name of a
   * body; `broken`: a deliberately wrong body, for tests
   */
  static const Attention& put(const Library& library, const std::string& wish);

  /// The body in use: `avx512`, `avx2`, `neon` or `plain`; `llama`: llama.cpp's own kernel.
  const std::string& name() const { return name_; }
  /// Why llama.cpp's own kernel is used, as text. Empty if ours is used, or if `wish` was `llama`.
  const std::string& reason() const { return reason_; }

 private:
  std::string name_ = "llama", reason_;
};

/// An attention of random numbers over a random mask, by a body and by llama.cpp's own kernel.
struct Trial {
  api::ggml_type type = api::GGML_TYPE_F16;
  int key_size = 64, value_size = 64;
  int kv_heads = 2, group = 2;
  int rows = 1, cells = 64;
  float cap = 0;
  bool has_sinks = false, has_biases = false;
  int threads = 1;
  uint32_t seed = 1;
  /// The cells that rows read: 0: random cells. 1: all cells up to an end that grows by one per
  /// row. 2: texts that share some cells.
  int pattern = 0;
};

/// The result of a trial.
struct TrialResult {
  bool was_ours = false;  // our kernel was called, and accepted the operation
  /// The largest distance between our answer and llama.cpp's for a row, relative to its length.
  double distance = 0;
  /// Whether each of some rows has the same bits when it is computed alone.
  bool is_same_alone = true;
};

/// Computes a trial by the installed kernel. @throws std::runtime_error
TrialResult try_attention(const Library& library, const Trial& trial);

/// Enables or disables our kernel, in all threads. @returns the previous setting
bool let_ours_compute(bool does);

/// Number of operations that our kernel has computed.
uint64_t computed_by_ours();

}  // namespace blockstep::llama
