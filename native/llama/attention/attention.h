// Attention: which kernel computes attention on the CPU, in all contexts of this process. Ours stands in front of llama.cpp's own in its list
// of extra buffer types, which the CPU backend asks before each operation.
#pragma once

#include <string>

#include "kernel.h"

namespace blockstep::llama {

class Attention {
 public:
  /**
   * Puts our kernel in, tries it, and takes it away again if it is wrong.
   * @param wish empty: the fastest body for this processor. `llama`: none. Else the name of a body; `broken`: one that is wrong, for tests
   */
  static const Attention& put(const Library& library, const std::string& wish);

  /// The body that computes: `avx512`, `avx2`, `neon` or `plain`; `llama`: llama.cpp's own kernel.
  const std::string& name() const { return name_; }
  /// Why llama.cpp's own computes, in words; empty: because ours does not, or that was the wish.
  const std::string& reason() const { return reason_; }

 private:
  std::string name_ = "llama", reason_;
};

/// One attention of random numbers over a random mask, by a body and by llama.cpp's own kernel.
struct Trial {
  api::ggml_type type = api::GGML_TYPE_F16;
  int key_size = 64, value_size = 64;
  int kv_heads = 2, group = 2;
  int rows = 1, cells = 64;
  float cap = 0;
  bool has_sinks = false, has_biases = false;
  int threads = 1;
  uint32_t seed = 1;
  /// What the rows read: 0: cells by chance. 1: all up to one that grows by one from row to row. 2: texts that share some cells.
  int pattern = 0;
};

/// What a trial brought.
struct TrialResult {
  bool was_ours = false;  // our kernel was asked, and took it
  /// The largest distance of a row's answer by our kernel from that by llama.cpp's, in shares of its length.
  double distance = 0;
  /// Whether each of some rows has the same bits when it is computed alone.
  bool is_same_alone = true;
};

/// Computes a trial by the kernel that is put in. @throws std::runtime_error
TrialResult try_attention(const Library& library, const Trial& trial);

/// Lets ours compute, or not, in all threads. @returns what was so before
bool let_ours_compute(bool does);

/// How many operations our kernel has computed.
uint64_t computed_by_ours();

}  // namespace blockstep::llama
