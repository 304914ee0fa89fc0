#include "next_step.h"

namespace blockstep::llama {

NextStep::NextStep(const ProgramCall& call)
    : tokens_(call.tokens, call.tokens + call.num_tokens),
      positions_(call.positions, call.positions + call.num_tokens),
      sequences_(call.sequences, call.sequences + call.num_tokens),
      samples_(call.samples, call.samples + call.num_samples),
      calls_{call} {
  ProgramCall& own = calls_.front();
  own.moves = nullptr;
  own.num_moves = 0;
  own.tokens = tokens_.data();
  own.positions = positions_.data();
  own.sequences = sequences_.data();
  own.samples = samples_.data();
}

bool NextStep::may_follow(const std::vector<ProgramCall>& calls) {
  if (calls.size() != 1) return false;
  const ProgramCall& call = calls.front();
  if (call.num_tokens == 0 || call.num_samples != call.num_tokens) return false;
  for (int32_t s = 0; s < call.num_samples; s++)
    if (call.samples[s].row != s || call.samples[s].drafts != 0 || call.samples[s].sampler < -1) return false;
  return true;
}

bool NextStep::advance(const std::vector<int32_t>& tokens, std::size_t at, const std::function<bool(int32_t)>& is_end) {
  for (std::size_t row = 0; row < tokens_.size(); row++, at += 2) {
    if (at + 1 >= tokens.size() || tokens[at] != 1 || is_end(tokens[at + 1])) return false;
    tokens_[row] = tokens[at + 1];
    positions_[row]++;
    samples_[row].position++;
  }
  return true;
}

}  // namespace blockstep::llama
