// StepIo: the buffer of one step of the reference executor. The executor reads the plan from it and
// writes the answer into it. src/core/native/native-reference.ts lays out the same buffer. Both
// layouts must agree.
#pragma once

#include "config.h"
#include "mismatch.h"

namespace blockstep {

constexpr u32 kMaxFindings = 64;     // further findings are only counted
constexpr u32 kFindingNumbers = 13;  // number of fields of a finding
constexpr u32 kStepControlWords = 8;

/// Indexes of the words of `control`. TypeScript writes kNumEntries, the executor the others.
enum StepControl : u32 { kNumEntries, kNumTokens, kNumFindings, kNumErrors };

/// `control` has kStepControlWords words. Every other array except `findings` has max_entries
/// elements, multiplied by the length in brackets.
struct StepIo {
  const double* handles;
  double* findings;  // [kMaxFindings][kFindingNumbers]
  std::int32_t* control;
  // The plan.
  const std::int32_t* kinds;
  const std::int32_t* scheduled;
  const std::int32_t* num_blocks;      // of the first KV cache group, then of the second, and so on
  const std::int32_t* num_new_blocks;  // the same
  const std::int32_t* num_drafts;
  const std::int32_t* samples;       // not 0: computes the last known token, and samples
  const std::int32_t* first;         // 1 + first position according to the caller; 0: not passed
  const std::int32_t* num_known;     // known tokens in the list: all of an admitted entry, else 0
  const std::int32_t* num_prompt;    // of admitted entries
  const std::int32_t* roots;         // [2] a key of adapter and salt, of admitted entries
  const std::int32_t* draft_tokens;  // [max_drafts]; -1: this executor's draft, -2: never accepted
  // The answer.
  std::int32_t* counts;
  std::int32_t* tokens;              // [1 + max_drafts], one entry after the other without gaps
  std::int32_t* next_counts;
  std::int32_t* next_drafts;         // [max_drafts], without gaps
  u8* errors;
};

/// Bytes of the buffer of a step.
inline u64 step_io_bytes(const ReferenceConfig& config) {
  const u64 entries = config.tables.max_entries;
  const u64 drafts = config.max_drafts;
  return 8 * (entries + kMaxFindings * kFindingNumbers) +
         4 * (kStepControlWords + entries * (12 + 2 * config.tables.num_lists() + 3 * drafts)) + entries;
}

/// Lays out the arrays from `base` on, which is aligned to 8 bytes.
inline StepIo lay_out_step(const ReferenceConfig& config, void* base) {
  const u64 entries = config.tables.max_entries;
  const u64 drafts = config.max_drafts;
  StepIo io;
  io.handles = static_cast<const double*>(base);
  io.findings = static_cast<double*>(base) + entries;
  auto* words = reinterpret_cast<std::int32_t*>(io.findings + kMaxFindings * kFindingNumbers);
  const auto cut = [&](u64 count) {
    std::int32_t* array = words;
    words += count;
    return array;
  };
  io.control = cut(kStepControlWords);
  io.kinds = cut(entries);
  io.scheduled = cut(entries);
  io.num_blocks = cut(entries * config.tables.num_lists());
  io.num_new_blocks = cut(entries * config.tables.num_lists());
  io.num_drafts = cut(entries);
  io.samples = cut(entries);
  io.first = cut(entries);
  io.num_known = cut(entries);
  io.num_prompt = cut(entries);
  io.roots = cut(2 * entries);
  io.draft_tokens = cut(entries * drafts);
  io.counts = cut(entries);
  io.tokens = cut(entries * (1 + drafts));
  io.next_counts = cut(entries);
  io.next_drafts = cut(entries * drafts);
  io.errors = reinterpret_cast<u8*>(words);
  return io;
}

}  // namespace blockstep
