// Decisions::poll(): how the core follows a decision that has arrived.
#include <algorithm>
#include <string>

#include "../../core/audit/check.h"
#include "decisions.h"

namespace blockstep {

bool Decisions::poll(Span<std::int32_t> answer) {
  if (!condition_.deciding()) throw Error{kBadArg, "no decision is under way: submitDecision comes first"};
  const std::size_t needed = kAnswerHead + std::size_t{kAnswerAdmission} * admissions_.size();
  if (answer.size < needed) {
    throw Error{kBadArg, "answer must be at least " + std::to_string(needed) + " words long, got " +
                             std::to_string(answer.size)};
  }
  const Decision* decision = condition_.ask_mirror([&] { return decider_.poll(); });
  if (!decision) return false;
  u64 rows = state_.rows_in_use;
  follow(*decision);
  u64 taken = take_running(decision->header);
  const u32 num_run = entries_done(decision->header);
  const bool cut = decision->header.stop == kNotStopped && !asked_.whole;
  std::fill_n(answer.data, kAnswerHead, 0);
  answer.data[kAnswerStop] = static_cast<std::int32_t>(cut ? kStopBatch : decision->header.stop);
  answer.data[kNumRun] = static_cast<std::int32_t>(num_run);
  answer.data[kNumAnswers] = static_cast<std::int32_t>(decision->header.num_answers);
  answer.data[kNumAdmitted] = static_cast<std::int32_t>(decision->header.num_admitted);
  for (u32 i = 0; i < decision->header.num_answers; ++i) {
    const bool admitted = i < decision->header.num_admitted;
    const AnswerAdmission answered = take_answer(admissions_[i], decision->answers[i], admitted);
    std::copy_n(reinterpret_cast<const std::int32_t*>(&answered), kAnswerAdmission,
                answer.data + kAnswerHead + std::size_t{i} * kAnswerAdmission);
    taken += static_cast<u32>(answered.num_new);
    rows += admitted && admissions_[i].admission.row == kNone;
  }
  if (taken != decision->header.num_ids || rows != state_.rows_in_use) {
    condition_.poison("the device gave blocks or rows to requests that its decision does not name", kMirror);
  }
  forget_admissions();
  condition_.set_deciding(false);
  facts_.publish_counts();
  slots_.publish_common_prefix();
  return true;
}

/// Checks the device's log like a log from a file, and applies it. Ids, counts and rolling digest
/// must match the device's.
void Decisions::follow(const Decision& decision) {
  const DecisionHeader& header = decision.header;
  if (const char* why = refusal(state_, decision.log, header.log_words)) {
    condition_.poison(std::string("the log that the device decided does not apply: ") + why, kMirror);
  }
  const Results results = facts_.follow(decision.log, header.log_words);
  const bool ids = results.fault == kNoFault && results.num_ids == header.num_ids &&
                   std::equal(results.ids, results.ids + results.num_ids, decision.ids);
  const auto wide = [](const u32(&words)[2]) { return words[0] | u64{words[1]} << 32; };
  const bool counts = header.num_free == state_.num_free && header.num_published == state_.num_published &&
                      header.rows_in_use == state_.rows_in_use && wide(header.num_commands) == state_.num_commands;
  const char* differs = !ids      ? "other blocks were taken"
                        : !counts ? "the counts differ"
                        : wide(header.rolling_digest) != state_.rolling_digest ? "the rolling digests differ"
                                                                               : nullptr;
  if (differs) condition_.poison(std::string("the host cannot follow the device's decision: ") + differs, kMirror);
}

/// Poisons the core unless the row is in use and holds `num_blocks` blocks.
void Decisions::check_row(u32 row, u32 num_blocks) {
  if (row < config_.pool.num_rows && state_.rows[row].in_use && state_.rows[row].num_blocks == num_blocks) return;
  condition_.poison("row " + std::to_string(row) + " does not hold the " + std::to_string(num_blocks) +
                        " blocks that the device's decision says",
                    kMirror);
}

/// Number of completed entries of the frame: all before the first that did not fit into the free
/// blocks or the batch.
u32 Decisions::entries_done(const DecisionHeader& header) {
  const u32 end = header.num_run < running_.work().size() ? running_.work()[header.num_run].entry : asked_.to;
  running_.forget();
  return end - asked_.from;
}

/// Updates the slots of the completed running entries. Returns the number of blocks that they took.
u64 Decisions::take_running(const DecisionHeader& header) {
  const Frame frame = exchange_.frame(asked_.frame);
  u64 taken = 0;
  for (u32 i = 0; i < header.num_run; ++i) {
    const RunningWork& work = running_.work()[i];
    Slot& slot = table_[work.slot];
    const u32 num_blocks = slot.num_blocks + work.take;
    check_row(slot.row, num_blocks);
    running_.settle(work, frame);
    taken += work.take;
  }
  return taken;
}

/// Checks one answer and updates its slot. Answers come in order, and each that opens a row must
/// get the lowest free row.
AnswerAdmission Decisions::take_answer(const Asked& asked, const AdmissionAnswer& answer, bool admitted) {
  const Admission& admission = asked.admission;
  if (!admitted) return {-1, static_cast<std::int32_t>(answer.num_hits), 0, 0, 0, 0};
  Slot& slot = table_[asked.slot];
  const bool opens = slot.row == kNone;
  const u32 computed = computed_tokens(config_.block_size, admission, answer.num_hits);
  const u32 row = opens ? slots_.free_rows().lowest() : slot.row;
  // Unused if `computed` exceeds the number of tokens.
  const u32 missing = slot.num_tokens - computed;
  const bool possible = answer.row == row && computed <= slot.num_tokens &&
                        answer.num_tokens <= missing + padding_of(asked_.padding, admission, missing) &&
                        u64{answer.num_hits} + slot.num_blocks + answer.num_new == answer.num_blocks;
  if (!possible) {
    condition_.poison("the device admitted slot " + std::to_string(asked.slot) + " as it cannot be admitted", kMirror);
  }
  check_row(row, answer.num_blocks);
  for (u32 i = 0; i < answer.num_hits; ++i) {
    const Block& block = state_.blocks[blocks_of(state_, row)[i]];
    if ((block.flags & kPublished) && block.key == slot.hashes[i + 1]) continue;
    condition_.poison("the device gave slot " + std::to_string(asked.slot) + " a cached block of another prefix",
                      kMirror);
  }
  const bool publishes = config_.caching && !(admission.flags & kLoadsFirst);
  const u32 published = opens ? answer.num_hits : slot.num_published;
  const u32 full = publishes ? std::min(computed + answer.num_tokens, slot.num_tokens) / config_.block_size : 0;
  if (opens) slots_.free_rows().take(row);
  slots_.set_row(slot, row, answer.num_blocks, std::max(published, std::min(full, answer.num_blocks)));
  const auto word = [](u32 value) { return static_cast<std::int32_t>(value); };
  return {word(row), word(answer.num_hits), word(answer.num_tokens), word(answer.num_blocks), word(answer.num_new),
          word(computed)};
}

}  // namespace blockstep
