// The work of a step: the admitted requests, the blocks they took, and the computed positions. Also
// checks that the tables agree with the plan and with the unpaged copies.
#include <algorithm>

#include "../host/requests/request_table.h"
#include "reference.h"

namespace blockstep {

/// Fills work_. Afterwards the drafts of the step follow the known tokens of every computed
/// sequence.
void ReferenceModel::begin(const StepIo& io, const Tables& tables, Span<const std::int32_t> known) {
  const auto n = static_cast<u32>(io.control[kNumEntries]);
  work_.clear();
  const std::int32_t* tokens = known.data;
  u32 query = 0;
  for (u32 e = 0; e < n; ++e) {
    Sequence* sequence = admit(io, e, tokens);
    work_.push_back({sequence, e, query, 0, 0, 0, 0, 0, 0, kNone, -1, true, false});
    tokens += io.num_known[e];
    query += static_cast<u32>(io.scheduled[e]);
  }
  // All blocks that this step takes are taken before any block is checked.
  for (Work& work : work_) {
    for (u32 g = 0; g < num_groups(); ++g) take_blocks(io, tables, work, g);
  }
  for (Work& work : work_) plan_entry(io, tables, work);
}

/// The sequence of an entry. An admitted entry restarts it. Null if the request of a running entry
/// was never admitted.
Sequence* ReferenceModel::admit(const StepIo& io, u32 entry, const std::int32_t* known) {
  const auto handle = static_cast<u64>(io.handles[entry]);
  auto found = sequences_.find(handle);
  if (io.kinds[entry] == 0) return found == sequences_.end() ? nullptr : found->second.get();
  if (found == sequences_.end()) {
    found = sequences_.emplace(handle, std::make_unique<Sequence>()).first;
    found->second->handle = handle;
    retire(handle);
  }
  const u64 root = u64{static_cast<u32>(io.roots[2 * entry])} << 32 | static_cast<u32>(io.roots[2 * entry + 1]);
  found->second->admit(root, static_cast<u32>(io.num_prompt[entry]), known, static_cast<u32>(io.num_known[entry]));
  return found->second.get();
}

/// Notes that request `handle` has its slot, so the former request of that slot has ended. The
/// former request's copy is dropped once no earlier submitted step is outstanding. An out-of-order
/// step is therefore reported by its findings in the memory, and not by a missing copy.
void ReferenceModel::retire(u64 handle) {
  const u64 slot = handle % kSlotLimit;
  if (slot >= by_slot_.size()) by_slot_.resize(slot + 1, 0);
  if (by_slot_[slot] != 0) retired_.push_back({by_slot_[slot], step_});
  by_slot_[slot] = handle;
}

void ReferenceModel::forget_retired() {
  const auto gone = std::partition(retired_.begin(), retired_.end(), [&](const Retired& retired) {
    return retired.step + config_.pipeline_depth > step_;
  });
  for (auto at = gone; at != retired_.end(); ++at) sequences_.erase(at->handle);
  retired_.erase(gone, retired_.end());
}

/// Notes that the request of an entry takes the new blocks of its row. An admitted entry takes all
/// blocks of its row except those of its cached prefix. New places may be empty, or hold a block
/// that moved there. The request already has such a block, and rewrites it.
void ReferenceModel::take_blocks(const StepIo& io, const Tables& tables, Work& work, u32 group) {
  const u32 e = work.entry;
  const u32 size = config_.tokens_per_block(group);
  const auto num_blocks = static_cast<u32>(io.num_blocks[at(group, e)]);
  u32 from = num_blocks - static_cast<u32>(io.num_new_blocks[at(group, e)]);
  if (io.kinds[e] != 0) {
    const auto computed = static_cast<u32>(std::max(tables.num_computed[e], 0));
    from = std::min((computed + size - 1) / size, num_blocks);
  }
  for (u32 i = from; i < num_blocks; ++i) {
    const auto block = static_cast<u32>(row(tables, group, e)[i]);
    if (block == kNullBlock || block >= config_.num_blocks) continue;  // reported when it is read
    Possession& possession = possessions_[block];
    possession.owner = static_cast<u64>(io.handles[e]);
    possession.generation += 1;
    possession.arrivals = blocks()->arrivals(block);
  }
}

void ReferenceModel::plan_entry(const StepIo& io, const Tables& tables, Work& work) {
  const u32 e = work.entry;
  if (!work.sequence) {
    report(work, {Mismatch::kUnknown, e, static_cast<u64>(io.handles[e])});
    return;
  }
  Sequence& sequence = *work.sequence;
  if (sequence.lost) return;
  const auto count = static_cast<u32>(io.scheduled[e]);

  // The plan determines the positions of the entry's tokens in the step, and the tables must agree.
  for (u32 side = 0; side < 2; ++side) {
    const u32 expected = work.query + side * count;
    if (tables.query_start[e + side] == static_cast<std::int32_t>(expected)) continue;
    Finding finding{Mismatch::kQueryStart, e, sequence.handle};
    finding.expected = expected;
    finding.found = tables.query_start[e + side];
    report(work, finding);
  }

  const std::int64_t computed = tables.num_computed[e];
  if (io.kinds[e] != 0) {
    sequence.computed = sequence.adopted = static_cast<u32>(std::clamp<std::int64_t>(computed, 0, sequence.tokens.size()));
  }
  // A plan may have counted rejected drafts as tokens, so that no token was sampled after the last
  // known token.
  const bool again = sequence.unsure && sequence.computed == sequence.tokens.size() &&
                     computed + 1 == sequence.computed;
  if (again) sequence.computed -= 1;
  const std::int64_t shift = computed - sequence.computed;
  const u32 once = sequence.rejected[0];
  if (shift != 0 && shift != once && shift != once + sequence.rejected[1]) {
    Finding finding{Mismatch::kComputed, e, sequence.handle};
    finding.expected = sequence.computed;
    finding.found = computed;
    report(work, finding);
  } else {
    work.shift = static_cast<u32>(shift);
    check_told(io, work);
  }
  work.first = sequence.computed;
  work.planned_end = work.first + work.shift + count;
  if (tables.seq_lens[e] != std::int64_t{work.planned_end}) {
    Finding finding{Mismatch::kLength, e, sequence.handle};
    finding.expected = work.planned_end;
    finding.found = tables.seq_lens[e];
    report(work, finding);
  }

  const u32 num_drafts = static_cast<u32>(io.num_drafts[e]);
  if (work.shift == 0) take_inputs(tables, work, count);
  work.end = work.first + count;
  if (sequence.unsure) settle(io, tables, work, num_drafts);
  work.known = static_cast<u32>(sequence.tokens.size());
  const bool fits = io.samples[e] ? work.end == work.known + num_drafts : work.end <= work.known && num_drafts == 0;
  bool has_blocks = true;
  for (u32 g = 0; g < num_groups(); ++g) {
    has_blocks &= u64{work.planned_end} <= u64{config_.tables.blocks_per_row(g)} * config_.tokens_per_block(g);
  }
  if (!fits || !has_blocks) {
    Finding finding{Mismatch::kScheduled, e, sequence.handle};
    finding.expected = std::int64_t{work.known} + num_drafts - work.first;
    finding.found = count;
    report(work, finding);
    return;
  }
  work.skip = false;
  take_drafts(io, work);
}

/// Checks the position at which the entry begins according to the caller (InputBatch), if the
/// caller passes it.
void ReferenceModel::check_told(const StepIo& io, Work& work) {
  const std::int64_t told = io.first[work.entry];
  const std::int64_t computed = work.sequence->computed;
  if (told == 0 || told - 1 == computed) return;
  Finding finding{Mismatch::kComputed, work.entry, work.sequence->handle};
  finding.expected = computed;
  finding.found = told - 1;
  report(work, finding);
}

/// Handles the entries of a request from its admission up to the first entry that samples. If the
/// tables of that entry have the last token, tokens behind it that were sampled before the
/// admission are invalid. Otherwise they are valid, and the plan may include tokens for rejected
/// drafts. The entry then computes that many tokens less.
void ReferenceModel::settle(const StepIo& io, const Tables& tables, Work& work, u32 num_drafts) {
  Sequence& sequence = *work.sequence;
  const bool samples = io.samples[work.entry] != 0;
  const u32 planned = work.end - num_drafts;  // number of tokens according to the plan
  const auto known = static_cast<u32>(sequence.tokens.size());
  if (samples) sequence.unsure = false;
  if (samples && tables.input_ids[work.query + (planned - 1 - work.first)] >= 0) {
    // Sampled tokens may become invalid. The prompt stays valid, and an entry that samples within
    // it is inconsistent.
    if (planned < known && planned >= sequence.num_prompt) sequence.truncate(planned);
    return;
  }
  if (planned <= known) return;
  const u32 surplus = planned - known;
  if (samples ? surplus == sequence.rejected_before : surplus <= sequence.rejected_before) work.end -= surplus;
}

/// Checks the input tokens of the tables against the copy. A negative input token is unknown.
void ReferenceModel::take_inputs(const Tables& tables, Work& work, u32 count) {
  Sequence& sequence = *work.sequence;
  for (u32 i = 0; i < count; ++i) {
    const std::int32_t token = tables.input_ids[work.query + i];
    const u32 position = work.first + i;
    if (token < 0) continue;
    const std::int64_t expected = position < sequence.tokens.size() ? sequence.tokens[position] : -1;
    if (expected == token) continue;
    Finding finding{Mismatch::kToken, work.entry, sequence.handle, position};
    finding.expected = expected;
    finding.found = token;
    report(work, finding);
    return;
  }
}

/// Appends the drafts to verify to the known tokens. These are the drafts of the plan. If the plan
/// was made before they were known, they are the drafts that this executor made.
void ReferenceModel::take_drafts(const StepIo& io, Work& work) {
  Sequence& sequence = *work.sequence;
  const auto count = static_cast<u32>(io.num_drafts[work.entry]);
  for (u32 j = 0; j < count; ++j) {
    std::int32_t token = io.draft_tokens[u64{work.entry} * config_.max_drafts + j];
    if (token == -1 && config_.pipeline_depth > 1) {
      if (j < sequence.drafts.size()) {
        token = sequence.drafts[j];
      } else {
        report(work, {Mismatch::kDraft, work.entry, sequence.handle, std::int64_t{work.known} + j});
      }
    }
    sequence.append(token);  // a negative draft is never accepted
  }
}

}  // namespace blockstep
