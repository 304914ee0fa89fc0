#include "reference.h"

#include <algorithm>

#include "memory/host_memory.h"

namespace blockstep {

ReferenceModel::ReferenceModel(const ReferenceConfig& config, std::unique_ptr<EntryMemory> memory)
    : config_(config),
      memory_(std::move(memory)),
      possessions_(config.num_blocks),
      continuation_(config.seed, config.eos_token) {
  work_.reserve(config.tables.max_entries);
  findings_.reserve(kMaxFindings);
}

ReferenceModel::ReferenceModel(const ReferenceConfig& config)
    : ReferenceModel(config, std::make_unique<HostMemory>(config.num_blocks, config.block_size)) {}

void ReferenceModel::step(const StepIo& io, const Tables& tables, Span<const std::int32_t> known,
                          Span<const std::int32_t> zeroed) {
  require_sound();
  check(io, known);
  zero(zeroed);
  put(io, tables, known);
  judge(io, tables);
  finish(io);
}

void ReferenceModel::put(const StepIo& io, const Tables& tables, Span<const std::int32_t> known) {
  require_sound();
  findings_.clear();
  num_findings_ = num_saved_ = num_tokens_ = num_drafts_ = 0;
  step_ += 1;
  attempt([&] {
    memory_->begin();
    begin(io, tables, known);
    // A step may overwrite the last state with the next state, so all states are saved first.
    for (Work& work : work_) save_states(tables, work);
    for (Work& work : work_) write(tables, work);
  });
}

void ReferenceModel::judge(const StepIo& io, const Tables& tables) {
  require_sound();
  attempt([&] {
    report_astray();
    for (Work& work : work_) {
      read_states(tables, work);
      read(tables, work);
      answer(io, tables, work);
    }
  });
}

void ReferenceModel::finish(const StepIo& io) {
  require_sound();
  attempt([&] { report_astray(); });
  for (const Work& work : work_) {
    if (!work.faulty || config_.report_only) continue;
    io.errors[work.entry] = 1;  // its tokens stay in the answer, but the caller does not use them
    if (work.sequence) work.sequence->lost = true;
  }
  forget_retired();
  publish_findings(io);
}

/// Runs a part of a step that cannot be undone. If memory runs out, the model is poisoned.
template <class Part>
void ReferenceModel::attempt(const Part& part) {
  try {
    part();
  } catch (const std::bad_alloc&) {
    poisoned_ = "the reference executor ran out of memory in the middle of a step";
    throw Error{kNoMemory, poisoned_};
  }
}

void ReferenceModel::zero(Span<const std::int32_t> blocks) {
  require_sound();
  for (u32 i = 0; i < blocks.size; ++i) check_block("blocksToZero", i, blocks.data[i]);
  for (u32 i = 0; i < blocks.size; ++i) memory_->adopt(static_cast<u32>(blocks.data[i]), 0, false);
}

/// @throws Error kBadArg for an id outside of the pool, or the null block
void ReferenceModel::check_block(const char* name, u32 index, std::int32_t block) const {
  if (block > static_cast<std::int32_t>(kNullBlock) && static_cast<u32>(block) < config_.num_blocks) return;
  throw Error{kBadArg, std::string(name) + "[" + std::to_string(index) + "] must be an integer from 1 to " +
                           std::to_string(config_.num_blocks - 1) + ", got " + std::to_string(block)};
}

void ReferenceModel::adopt(u64 handle, Span<const std::int32_t> blocks) {
  require_sound();
  for (u32 i = 0; i < blocks.size; ++i) {
    if (std::find(blocks.data, blocks.data + i, blocks.data[i]) != blocks.data + i) {
      throw Error{kBadArg, "blocks must name a block once, got " + std::to_string(blocks.data[i]) + " twice"};
    }
    check_block("blocks", i, blocks.data[i]);
  }
  for (u32 i = 0; i < blocks.size; ++i) {
    const auto block = static_cast<u32>(blocks.data[i]);
    Possession& possession = possessions_[block];
    const u32 arrivals = memory_->blocks()->arrivals(block);
    const bool filled = arrivals != possession.arrivals;
    possession = {handle, possession.generation + 1, arrivals};
    memory_->adopt(block, possession.generation, filled);
  }
}

/// Samples from the tokens that were read, verifies drafts, and makes drafts for the next step.
void ReferenceModel::answer(const StepIo& io, const Tables& tables, Work& work) {
  const u32 e = work.entry;
  io.counts[e] = 0;
  io.next_counts[e] = 0;
  io.errors[e] = 0;
  const bool failed = (work.faulty && !config_.report_only) || work.skip;
  if (failed) {
    io.errors[e] = 1;
    if (work.sequence) work.sequence->lost = true;
    return;
  }
  Sequence& sequence = *work.sequence;
  const u32 num_drafts = static_cast<u32>(sequence.tokens.size()) - work.known;
  u32 rejected = 0;
  if (!io.samples[e]) {
    sequence.computed = work.end;
  } else {
    std::int32_t* sampled = io.tokens + num_tokens_;
    u32 count = 0;
    do {
      sampled[count] = continuation_.next(text_.data(), work.known + count, sequence.num_prompt);
      count += 1;
    } while (count <= num_drafts && text_[work.known + count - 1] == sampled[count - 1]);
    sequence.truncate(work.known);
    for (u32 i = 0; i < count; ++i) sequence.append(sampled[i]);
    sequence.computed = work.known + count - 1;
    rejected = num_drafts + 1 - count;
    for (u32 g = 0; num_drafts > 0 && g < num_groups(); ++g) {
      if (has_states(g)) keep_states(tables, work, g, sequence.computed);
    }
    if (work.faulty && !config_.report_only) {
      io.errors[e] = 1;
      sequence.lost = true;
      return;
    }
    io.counts[e] = static_cast<std::int32_t>(count);
    num_tokens_ += count;
    draft(sequence);
    io.next_counts[e] = static_cast<std::int32_t>(sequence.drafts.size());
    std::copy(sequence.drafts.begin(), sequence.drafts.end(), io.next_drafts + num_drafts_);
    num_drafts_ += static_cast<u32>(sequence.drafts.size());
  }
  sequence.rejected[1] = config_.pipeline_depth > 2 ? sequence.rejected[0] : 0;
  sequence.rejected[0] = config_.pipeline_depth > 1 ? rejected : 0;
}

/// Makes drafts for the next step: the tokens that the model will sample, some of them deliberately
/// wrong.
void ReferenceModel::draft(Sequence& sequence) {
  constexpr u32 kDraftSeed = 0x5bd1e995;
  sequence.drafts.clear();
  if (config_.max_drafts == 0) return;
  const auto known = static_cast<u32>(sequence.tokens.size());
  if (text_.size() < u64{known} + config_.max_drafts) text_.resize(u64{known} + config_.max_drafts);
  std::copy(sequence.tokens.begin(), sequence.tokens.end(), text_.begin());
  for (u32 j = 0; j < config_.max_drafts; ++j) {
    std::int32_t token = continuation_.next(text_.data(), known + j, sequence.num_prompt);
    const u32 dice = mix32(mix32(config_.seed ^ kDraftSeed, static_cast<u32>(sequence.hashes.back())), j);
    if (dice < config_.wrong_drafts) token = token == 0 ? 1 : token - 1;
    text_[known + j] = token;
    sequence.drafts.push_back(token);
  }
}

void ReferenceModel::report(Work& work, Finding finding) {
  work.faulty = true;
  num_findings_ += 1;
  if (findings_.size() < kMaxFindings) findings_.push_back(finding);
}

void ReferenceModel::publish_findings(const StepIo& io) const {
  double* at = io.findings;
  for (const Finding& finding : findings_) {
    const double numbers[kFindingNumbers] = {
        static_cast<double>(finding.kind),           static_cast<double>(finding.entry),
        static_cast<double>(finding.handle),         static_cast<double>(finding.position),
        static_cast<double>(finding.block),          static_cast<double>(finding.expected),
        static_cast<double>(finding.found),          static_cast<double>(finding.found_position),
        static_cast<double>(finding.owner),          static_cast<double>(finding.generation),
        static_cast<double>(finding.found_generation), static_cast<double>(finding.group),
        static_cast<double>(finding.place)};
    at = std::copy_n(numbers, kFindingNumbers, at);
  }
  u32 errors = 0;
  for (const Work& work : work_) errors += io.errors[work.entry];
  io.control[kNumTokens] = static_cast<std::int32_t>(num_tokens_);
  io.control[kNumFindings] = static_cast<std::int32_t>(num_findings_);
  io.control[kNumErrors] = static_cast<std::int32_t>(errors);
}

}  // namespace blockstep
