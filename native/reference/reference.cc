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

void ReferenceModel::step(const StepIo& io, const Tables& tables, Span<const std::int32_t> known) {
  require_sound();
  check(io, known);
  put(io, tables, known);
  judge(io, tables);
}

void ReferenceModel::put(const StepIo& io, const Tables& tables, Span<const std::int32_t> known) {
  require_sound();
  findings_.clear();
  num_findings_ = num_tokens_ = num_drafts_ = 0;
  step_ += 1;
  attempt([&] {
    begin(io, tables, known);
    for (Work& work : work_) write(tables, work);
  });
}

void ReferenceModel::judge(const StepIo& io, const Tables& tables) {
  require_sound();
  attempt([&] {
    report_astray();
    for (Work& work : work_) {
      read(tables, work);
      answer(io, work);
    }
    forget_retired();
  });
  publish_findings(io);
}

/// Runs a part of a step that cannot be undone: if memory runs out, the model is poisoned.
template <class Part>
void ReferenceModel::attempt(const Part& part) {
  try {
    part();
  } catch (const std::bad_alloc&) {
    poisoned_ = "the reference executor ran out of memory in the middle of a step";
    throw Error{kNoMemory, poisoned_};
  }
}

void ReferenceModel::adopt(u64 handle, Span<const std::int32_t> blocks) {
  require_sound();
  for (u32 i = 0; i < blocks.size; ++i) {
    const auto block = static_cast<u32>(blocks.data[i]);
    if (std::find(blocks.data, blocks.data + i, blocks.data[i]) != blocks.data + i) {
      throw Error{kBadArg, "blocks must name a block once, got " + std::to_string(block) + " twice"};
    }
    if (block != kNullBlock && block < config_.num_blocks) continue;
    throw Error{kBadArg, "blocks[" + std::to_string(i) + "] must be an integer from 1 to " +
                             std::to_string(config_.num_blocks - 1) + ", got " + std::to_string(blocks.data[i])};
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

/// Writes the entries of all tokens that this step computes. The slot mapping follows the plan. Where drafts were
/// rejected since the plan was made, the positions begin earlier: their slots come from the block table, and the last
/// elements of the slot mapping are only checked.
void ReferenceModel::write(const Tables& tables, Work& work) {
  if (work.skip) return;
  const std::int32_t* blocks = row(tables, work.entry);
  const std::int64_t* mapping = tables.slot_mapping + work.query;
  const u32 planned = work.first + work.shift;
  for (u32 p = work.first; p < work.end; ++p) {
    if (p < planned) write_entry(work, p, slot_in(blocks, p), kNone);
    else write_entry(work, p, mapping[p - planned], work.query + (p - planned));
  }
  for (u32 p = std::max(planned, work.end); p < work.planned_end; ++p) {
    const std::int64_t slot = mapping[p - planned];
    if (slot == slot_in(blocks, p)) continue;
    Finding finding{Mismatch::kSlot, work.entry, work.sequence->handle, p};
    finding.expected = slot_in(blocks, p);
    finding.found = slot;
    report(work, finding);
  }
}

/// @param mapping index of the slot in the slot mapping; kNone: the slot comes from the block table
void ReferenceModel::write_entry(Work& work, u32 position, std::int64_t slot, u32 mapping) {
  const Sequence& sequence = *work.sequence;
  const u64 end = u64{config_.num_blocks} * config_.block_size;
  if (slot < config_.block_size || static_cast<u64>(slot) >= end) {  // the null block belongs to no request
    Finding finding{Mismatch::kSlot, work.entry, sequence.handle, position};
    finding.found = slot;
    report(work, finding);
    return;
  }
  const u32 block = static_cast<u32>(static_cast<u64>(slot) / config_.block_size);
  const Possession& possession = possessions_[block];
  if (possession.owner != sequence.handle && block != work.trespassed) {
    work.trespassed = block;
    Finding finding{Mismatch::kForeignWrite, work.entry, sequence.handle, position, block};
    finding.owner = possession.owner;
    finding.generation = possession.generation;
    report(work, finding);
  }
  KvEntry& entry = memory_->place({work.entry, mapping}, static_cast<u64>(slot));
  entry = {sequence.hash_of(position), sequence.handle, sequence.tokens[position], position, possession.generation, 0};
}

/// Reports entries that went astray: the tables must not change until the step is over.
void ReferenceModel::report_astray() {
  const Span<const Astray> all = memory_->astray();
  for (u32 i = 0; i < all.size; ++i) {
    const Astray& astray = all.data[i];
    Work& work = work_[astray.entry];
    Finding finding{Mismatch::kSlot, work.entry, work.sequence->handle, astray.position};
    finding.expected = astray.expected;
    finding.found = astray.found;
    report(work, finding);
  }
}

/// Reads the whole sequence back through its block table into text_. Everything after this uses text_, not the copy.
void ReferenceModel::read(const Tables& tables, Work& work) {
  if (work.skip) return;
  Sequence& sequence = *work.sequence;
  if (text_.size() < work.end) text_.resize(std::max<std::size_t>(work.end, 2 * text_.size()));
  const std::int32_t* blocks = row(tables, work.entry);
  const u32 size = config_.block_size;
  const u32 num_blocks = (work.end + size - 1) / size;
  for (u32 i = 0; i < num_blocks; ++i) {
    if (i < sequence.blocks.size() && sequence.blocks[i] != blocks[i]) {
      Finding finding{Mismatch::kMoved, work.entry, sequence.handle, std::int64_t{i} * size, blocks[i]};
      finding.expected = sequence.blocks[i];
      finding.found = blocks[i];
      report(work, finding);
    }
    read_block(work, blocks[i], i, std::min((i + 1) * size, work.end));
  }
  if (!work.faulty) sequence.blocks.assign(blocks, blocks + num_blocks);
}

/// Reads the positions up to `to` from block `index` of the row, and reports the first entry that is wrong.
void ReferenceModel::read_block(Work& work, std::int32_t named, u32 index, u32 to) {
  const Sequence& sequence = *work.sequence;
  const u32 from = index * config_.block_size;
  const auto block = static_cast<u32>(named);
  if (named < 1 || block >= config_.num_blocks) {
    report(work, {Mismatch::kBlock, work.entry, sequence.handle, from, named});
    std::fill(text_.begin() + from, text_.begin() + to, 0);
    return;
  }
  const KvEntry* entries = memory_->read(work.entry, index, block);
  const Possession& possession = possessions_[block];
  bool good = true;
  if (blocks()->arrivals(block) != possession.arrivals) {
    report(work, {Mismatch::kUnexpectedLoad, work.entry, sequence.handle, from, named});
    good = false;
  }
  for (u32 p = from; p < to; ++p) {
    const KvEntry& entry = entries[p - from];
    text_[p] = entry.token;
    // The hash alone would do, except for memory that was copied only in part.
    const bool same = entry.hash == sequence.hash_of(p) && entry.token == sequence.tokens[p] && entry.position == p &&
                      entry.generation == possession.generation && (entry.owner == sequence.handle || p < sequence.adopted);
    if (same || !good) [[likely]] continue;
    good = false;
    judge_entry(work, p, block, entry);
  }
}

/// Reports an entry that differs from the copy, and in which way.
void ReferenceModel::judge_entry(Work& work, u32 position, u32 block, const KvEntry& entry) {
  const Sequence& sequence = *work.sequence;
  const u32 generation = possessions_[block].generation;
  Mismatch kind = Mismatch::kWrong;
  if (entry.owner == 0) kind = Mismatch::kUnwritten;
  else if (entry.generation != generation) kind = Mismatch::kStale;
  else if (entry.owner != sequence.handle) kind = Mismatch::kForeign;
  Finding finding{kind, work.entry, sequence.handle, position, block};
  finding.expected = sequence.tokens[position];
  finding.generation = generation;
  if (entry.owner != 0) {
    finding.found = entry.token;
    finding.found_position = entry.position;
    finding.owner = entry.owner;
    finding.found_generation = entry.generation;
  }
  report(work, finding);
}

/// Samples from the tokens that were read, verifies drafts, and makes drafts for the next step.
void ReferenceModel::answer(const StepIo& io, Work& work) {
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

/// Makes drafts for the next step: the tokens that the model will sample, some of them made wrong on purpose.
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
        static_cast<double>(finding.found_generation)};
    at = std::copy_n(numbers, kFindingNumbers, at);
  }
  u32 errors = 0;
  for (const Work& work : work_) errors += io.errors[work.entry];
  io.control[kNumTokens] = static_cast<std::int32_t>(num_tokens_);
  io.control[kNumFindings] = static_cast<std::int32_t>(num_findings_);
  io.control[kNumErrors] = static_cast<std::int32_t>(errors);
}

}  // namespace blockstep
