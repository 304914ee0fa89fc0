// The core of an engine whose device decides (authority 'device'). Who does what:
//
// - The device decides every block id: which blocks the running requests take, what each waiting request finds in the
//   prefix cache, how much of it is computed, whether it fits, and what is published. run() and admit() are refused.
// - The host keeps the request table and says what is known: releases, publications and evictions that TypeScript
//   left, pins, resets. They give nobody a block, so the host applies them at once, and they go to the device as facts in front
//   of the next batch.
// - The host's state follows. The decision comes with the log that the device wrote; it is checked against the state,
//   applied, and must lead to the same ids, counts and rolling digest, and to rows as the answers say. So queries, also
//   match() for who has to ask somebody between a lookup and an admission, are answered here, and are the device's
//   answers; such an admission names the hits that were found, and the device confirms them.
//
// Between submit_decision() and the poll_decision() that brings it, whatever would change the state is refused, and
// queries see the state before it. Requests can be added.
#include "decided.h"

#include <algorithm>

#include "../../core/audit/check.h"
#include "../core.h"

namespace blockstep {
namespace {

RequestAdmission admission_at(Span<const std::int32_t> request, u32 index) {
  RequestAdmission admission;
  std::copy_n(request.data + kRequestHead + std::size_t{index} * kRequestAdmission, kRequestAdmission,
              reinterpret_cast<std::int32_t*>(&admission));
  return admission;
}

}  // namespace

void HostCore::require_decider(const char* call) const {
  if (decider_) return;
  throw Error{kAuthority, std::string(call) + " is for a core whose GPU decides: the host decides here"};
}

void HostCore::set_deciding(bool deciding) {
  deciding_ = deciding;
  exchange_.control(kDeciding) = deciding ? 1 : 0;
}

void HostCore::submit_decision(u32 frame_index, u32 from, u32 to, Span<const std::int32_t> request) {
  require_decider("submitDecision");
  begin_change();
  check_range(from, to);
  check_request(request);
  drain();
  const Frame frame = exchange_.frame(frame_index);
  check_frame(frame, from, to);
  const auto slot_limit = static_cast<u32>(request.data[kAskSlotLimit]);
  for (const Asked& asked : admissions_) table_[asked.slot].mark = 0;  // left behind by one that threw
  admissions_.clear();
  plan_run(frame, from, to, slot_limit, ~u64{0});
  read_admissions(frame, from, to, request);
  const bool whole = write_running() && write_admissions();
  const auto word = [&](RequestWord at) { return static_cast<u32>(request.data[at]); };
  const BatchLimits limits = {word(kAskFlags),        word(kAskTokens),  word(kAskRequests), config_.block_size,
                              word(kAskPrefillLimit), config_.lookahead, slot_limit};
  asked_ = {frame_index, from, to, whole};
  ask_mirror([&] { decider_->give(batch_, limits); });
  set_deciding(true);
}

void HostCore::check_request(Span<const std::int32_t> request) const {
  const auto refuse = [](const char* what, const std::string& expected, std::int64_t value) {
    throw Error{kBadArg, std::string(what) + " must be " + expected + ", got " + std::to_string(value)};
  };
  if (request.size < kRequestHead) refuse("request", "at least 8 words long", request.size);
  const std::int32_t* head = request.data;
  if (head[kAskTokens] < 0) refuse("tokenBudget", "at least 0", head[kAskTokens]);
  if (head[kAskRequests] < 0) refuse("requestBudget", "at least 0", head[kAskRequests]);
  if (head[kAskPrefillLimit] < 0) refuse("prefillLimit", "at least 0", head[kAskPrefillLimit]);
  constexpr std::int32_t kFlags = kChunkedPrefill | kReserveAll | kDropLastHit;
  if (head[kAskFlags] & ~kFlags) refuse("flags", "of the bits 1, 2 and 4", head[kAskFlags]);
  const std::int32_t limit = head[kAskSlotLimit];
  if (limit < 1 || static_cast<u32>(limit) > config_.max_model_len) {
    refuse("slotLimit", "from 1 to maxModelLen (" + std::to_string(config_.max_model_len) + ")", limit);
  }
  const std::int32_t room = static_cast<std::int32_t>((request.size - kRequestHead) / kRequestAdmission);
  const std::int32_t count = head[kAskAdmissions];
  const std::string there = "from 0 to the " + std::to_string(room) + " that are there";
  if (count < 0 || count > room) refuse("numAdmissions", there, count);
}

/// The admissions, checked. Changes nothing but marks.
void HostCore::read_admissions(const Frame& frame, u32 from, u32 to, Span<const std::int32_t> request) {
  const auto slot_limit = static_cast<u32>(request.data[kAskSlotLimit]);
  for (u32 i = 0; i < static_cast<u32>(request.data[kAskAdmissions]); ++i) {
    const RequestAdmission asked = admission_at(request, i);
    const std::string where = " in admission " + std::to_string(i);
    if (asked.slot < 0 || !table_.is_open(static_cast<u32>(asked.slot))) {
      throw Error{kBadSlot, "slot " + std::to_string(asked.slot) + where + " is not open"};
    }
    const auto index = static_cast<u32>(asked.slot);
    Slot& slot = table_[index];
    const std::int32_t* const end = frame.slots + to;
    const bool runs = slot.row != kNone && std::find(frame.slots + from, end, asked.slot) != end;
    if (slot.mark || runs) throw Error{kBadArg, "slot " + std::to_string(index) + where + " is asked for twice"};
    if (slot.num_tokens > slot_limit) {
      throw Error{kBadArg, "slot " + std::to_string(index) + where + " has " + std::to_string(slot.num_tokens) +
                               " tokens, which is above slotLimit (" + std::to_string(slot_limit) + ")"};
    }
    const u32 num_hits = asked.num_hits < 0 ? kNone : static_cast<u32>(asked.num_hits);
    const Admission admission = {slot.num_tokens, static_cast<u32>(asked.num_computed), slot.row, slot.num_published, 0,
                                 num_hits, static_cast<u32>(asked.num_external), static_cast<u32>(asked.flags)};
    const bool in_range = asked.num_computed >= 0 && asked.num_external >= 0 && asked.num_hits >= -1 &&
                          (asked.flags & ~std::int32_t{kLoadsFirst}) == 0;
    const bool holds_hits = slot.row != kNone && num_hits != kNone && num_hits != 0;
    if (!in_range || holds_hits || !makes_sense(config_.block_size, admission)) {
      throw Error{kBadArg, "numComputedTokens, numExternalTokens, numHits and flags" + where + ", of " +
                               std::to_string(slot.num_tokens) + " tokens, make no sense: " +
                               std::to_string(asked.num_computed) + ", " + std::to_string(asked.num_external) + ", " +
                               std::to_string(asked.num_hits) + " and " + std::to_string(asked.flags)};
    }
    admissions_.push_back({index, admission});
    slot.mark = 1;
  }
}

/// The running entries that plan_run() found, as far as the batch has room. False if it has not.
bool HostCore::write_running() {
  batch_.clear();
  for (const Work& work : work_) {
    Slot& slot = table_[work.slot];
    const u32 fills = work.publish_to - slot.num_published;
    const u64 words = kWordsOf<RunningEntry> + u64{kPublishWords} * fills;
    if (batch_.size() + words > decider_->room().batch_words) return false;
    if (fills != 0) table_.extend_hashes(slot, work.publish_to);
    batch_.run(slot.row, work.take);
    for (u32 i = slot.num_published; i < work.publish_to; ++i) batch_.publication(slot.row, i, slot.hashes[i + 1]);
  }
  return true;
}

/// The admissions, each with a free row if it needs one, likewise.
bool HostCore::write_admissions() {
  u32 next_row = 0;
  for (Asked& asked : admissions_) {
    Slot& slot = table_[asked.slot];
    const u32 full = config_.caching ? table_.full_blocks(slot) : 0;
    const u32 known = std::min(slot.num_published, full);
    asked.admission.num_keys = full - known;
    const u64 words = kWordsOf<Admission> + u64{4} * asked.admission.num_keys + 1;
    if (batch_.size() + words > decider_->room().batch_words) return false;
    if (full != 0) table_.extend_hashes(slot, full);
    batch_.admission(asked.admission, config_.caching ? slot.hashes + 1 + known : nullptr);
    if (slot.row != kNone || next_row == kNone) continue;
    const u32 row = free_rows_.lowest_from(next_row);
    if (row != kNone) batch_.free_row(row);
    next_row = row == kNone ? kNone : row + 1;
  }
  return true;
}

bool HostCore::poll_decision(Span<std::int32_t> answer) {
  require_sound();
  require_decider("pollDecision");
  if (!deciding_) throw Error{kBadArg, "no decision is under way: submitDecision comes first"};
  const std::size_t needed = kAnswerHead + std::size_t{kAnswerAdmission} * admissions_.size();
  if (answer.size < needed) {
    throw Error{kBadArg, "answer must be at least " + std::to_string(needed) + " words long, got " +
                             std::to_string(answer.size)};
  }
  const Decision* decision = ask_mirror([&] { return decider_->poll(); });
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
    poison("the device gave blocks or rows to requests that its decision does not name", kMirror);
  }
  for (const Asked& asked : admissions_) table_[asked.slot].mark = 0;
  admissions_.clear();
  set_deciding(false);
  publish_counts();
  publish_common_prefix();
  return true;
}

/// The device's log, as carefully as one from a file; then what it led to must be what the device says.
void HostCore::follow(const Decision& decision) {
  const DecisionHeader& header = decision.header;
  if (const char* why = refusal(state_, decision.log, header.log_words)) {
    poison(std::string("the log that the device decided does not apply: ") + why, kMirror);
  }
  write_down(decision.log, header.log_words);
  SoloTeam solo;
  Results results{static_cast<u32*>(ids_memory_.base()), config_.pool.num_blocks, 0, 0, 0};
  apply(solo, state_, decision.log, header.log_words, results);
  const bool ids = results.fault == kNoFault && results.num_ids == header.num_ids &&
                   std::equal(results.ids, results.ids + results.num_ids, decision.ids);
  const auto wide = [](const u32(&words)[2]) { return words[0] | u64{words[1]} << 32; };
  const bool counts = header.num_free == state_.num_free && header.num_published == state_.num_published &&
                      header.rows_in_use == state_.rows_in_use && wide(header.num_commands) == state_.num_commands;
  const char* differs = !ids      ? "other blocks were taken"
                        : !counts ? "the counts differ"
                        : wide(header.rolling_digest) != state_.rolling_digest ? "the rolling digests differ"
                                                                               : nullptr;
  if (differs) poison(std::string("the host cannot follow the device's decision: ") + differs, kMirror);
}

/// A row that the decision says a slot has.
void HostCore::check_row(u32 row, u32 num_blocks) {
  if (row < config_.pool.num_rows && state_.rows[row].in_use && state_.rows[row].num_blocks == num_blocks) return;
  poison("row " + std::to_string(row) + " does not hold the " + std::to_string(num_blocks) +
             " blocks that the device's decision says",
         kMirror);
}

/// Entries of the frame that were done: all before the first one that did not fit into the pool, or into the batch.
u32 HostCore::entries_done(const DecisionHeader& header) {
  const u32 end = header.num_run < work_.size() ? work_[header.num_run].entry : asked_.to;
  for (const Work& work : work_) table_[work.slot].mark = 0;
  work_.clear();
  return end - asked_.from;
}

/// The entries that were done. Returns how many blocks they took.
u64 HostCore::take_running(const DecisionHeader& header) {
  const Frame frame = exchange_.frame(asked_.frame);
  u64 taken = 0;
  for (u32 i = 0; i < header.num_run; ++i) {
    const Work& work = work_[i];
    Slot& slot = table_[work.slot];
    const u32 num_blocks = slot.num_blocks + work.take;
    check_row(slot.row, num_blocks);
    set_row(slot, slot.row, num_blocks, work.publish_to);
    frame.num_blocks[work.entry] = static_cast<std::int32_t>(num_blocks);
    frame.new_blocks[work.entry] = static_cast<std::int32_t>(work.take);
    taken += work.take;
  }
  return taken;
}

/// One answer, in order: those that open a row get the lowest free one.
AnswerAdmission HostCore::take_answer(const Asked& asked, const AdmissionAnswer& answer, bool admitted) {
  const Admission& admission = asked.admission;
  if (!admitted) return {-1, static_cast<std::int32_t>(answer.num_hits), 0, 0, 0, 0};
  Slot& slot = table_[asked.slot];
  const bool opens = slot.row == kNone;
  const u32 computed = computed_tokens(config_.block_size, admission, answer.num_hits);
  const u32 row = opens ? free_rows_.lowest() : slot.row;
  const bool possible = answer.row == row && computed <= slot.num_tokens &&
                        answer.num_tokens <= slot.num_tokens - computed &&
                        u64{answer.num_hits} + slot.num_blocks + answer.num_new == answer.num_blocks;
  if (!possible) poison("the device admitted slot " + std::to_string(asked.slot) + " as it cannot be admitted", kMirror);
  check_row(row, answer.num_blocks);
  for (u32 i = 0; i < answer.num_hits; ++i) {
    const Block& block = state_.blocks[blocks_of(state_, row)[i]];
    if ((block.flags & kPublished) && block.key == slot.hashes[i + 1]) continue;
    poison("the device gave slot " + std::to_string(asked.slot) + " a cached block of another prefix", kMirror);
  }
  const bool publishes = config_.caching && !(admission.flags & kLoadsFirst);
  const u32 published = opens ? answer.num_hits : slot.num_published;
  const u32 full = publishes ? (computed + answer.num_tokens) / config_.block_size : 0;
  if (opens) free_rows_.take(row);
  set_row(slot, row, answer.num_blocks, std::max(published, std::min(full, answer.num_blocks)));
  const auto word = [](u32 value) { return static_cast<std::int32_t>(value); };
  return {word(row), word(answer.num_hits), word(answer.num_tokens), word(answer.num_blocks), word(answer.num_new),
          word(computed)};
}

}  // namespace blockstep
