// The outcome of a decided step, and the covered code paths of many steps.
#pragma once

#include <cstring>
#include <vector>

#include "../../core/decide/batch.h"
#include "../../host/decided/decided.h"

namespace blockstep::test {

/// The code paths that a run has covered. A run that misses a path proves nothing about it.
struct DecideCoverage {
  u64 stops[8] = {};  // by Stop
  u64 run = 0, partly_run = 0, hits = 0, dropped_hits = 0, free_hits = 0, partial_chunks = 0, limited_chunks = 0;
  u64 padded = 0, not_padded = 0, spared = 0, kept = 0, ahead = 0;
  u64 held_rows = 0, longer_rows = 0, external = 0, told = 0, brought = 0, loads = 0;
  u64 published = 0, contested = 0, known = 0, evictions = 0, facts = 0;
};

/// The outcome of a step.
struct Outcome {
  u32 num_run = 0;  // number of entries, from the first requested entry
  u32 stop = kNotStopped;
  std::vector<AnswerAdmission> answers;

  u32 num_admitted() const {
    const bool all = answers.empty() || answers.back().row >= 0;
    return static_cast<u32>(answers.size()) - (all ? 0 : 1);
  }
  bool operator==(const Outcome& other) const {
    return num_run == other.num_run && stop == other.stop && answers.size() == other.answers.size() &&
           (answers.empty() ||
            std::memcmp(answers.data(), other.answers.data(), answers.size() * sizeof(AnswerAdmission)) == 0);
  }
};

}  // namespace blockstep::test
