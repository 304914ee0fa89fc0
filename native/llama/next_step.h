// NextStep: the step behind a step of decodes, for the same requests. Each request decodes the
// token that the step before gave it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "program.h"

namespace blockstep::llama {

class NextStep {
 public:
  /// @param call a call that `may_follow`
  explicit NextStep(const ProgramCall& call);

  /// Whether a program is one call with a sample behind each token, so that a step may follow it.
  static bool may_follow(const std::vector<ProgramCall>& calls);

  /// Moves one token on.
  /// @param tokens the last answer: for each sample the number of its tokens, and these
  /// @param at where the answer begins
  /// @returns false if a sample has no token, or a token that ends its text
  bool advance(const std::vector<int32_t>& tokens, std::size_t at, const std::function<bool(int32_t)>& is_end);

  /// The step as a program. It points into this object.
  const std::vector<ProgramCall>& calls() const { return calls_; }

 private:
  std::vector<int32_t> tokens_, positions_, sequences_;
  std::vector<Sample> samples_;
  std::vector<ProgramCall> calls_;
};

}  // namespace blockstep::llama
