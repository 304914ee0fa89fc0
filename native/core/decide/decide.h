// decide(): one scheduling step that the team decides itself. It reads a batch (batch.h) and writes
// the log that the host writes otherwise. Every change is first written as a command and then
// carried out by the functions of apply(). Applying that log elsewhere therefore gives the same
// state.
//
// The order is the scheduler's. The facts come first. The running entries follow, up to the first
// entry that the free blocks do not suffice for. The entries before it get one Extend and one
// Publish. If all running entries fit, the admissions follow one by one, because each sees the
// evictions and publications of the previous one. The first admission that does not fit ends the
// step and changes nothing. Team code, see team.h.
#pragma once

#include "admit.h"

namespace blockstep {

/// Number of leading entries that the free blocks suffice for.
template <Team T>
BLOCKSTEP_HD inline u32 count_fitting(T& team, const State& state, const RunningEntry* entries, u32 count) {
  u32 fitting = 0;
  u64 wanted = 0;
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    u32 mine = i < count ? entries[i].num_new : 0;
    if (mine > kMaxBlocksPerRow) mine = kMaxBlocksPerRow;  // against overflow; extend() refuses it
    u32 total, fit;
    const u32 before = team.scan(mine, total);
    wanted += total;
    team.count(i < count && wanted - total + before + mine <= state.num_free, fit);
    fitting += fit;
  }
  return fitting;
}

/// One Extend for the first `count` running entries.
template <Team T>
BLOCKSTEP_HD inline void extend_running(T& team, State& state, const RunningEntry* entries, u32 count, Draft& draft) {
  u32* pairs = next_payload(state, draft, 2 * count);
  if (!pairs) return;
  u32 growing = 0;
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    const bool grows = i < count && entries[i].num_new != 0;
    u32 total;
    const u32 at = growing + team.count(grows, total);
    if (grows) {
      pairs[2 * at] = entries[i].row;
      pairs[2 * at + 1] = entries[i].num_new;
    }
    growing += total;
  }
  if (growing == 0) return;
  team.sync();
  carry_out(team, state, draft, Op::kExtend, growing);
}

/// Gives the running entries their blocks and publications. Returns the number of completed
/// entries.
template <Team T>
BLOCKSTEP_HD inline u32 decide_running(T& team, State& state, const Batch& batch, Draft& draft) {
  const u32 count = count_fitting(team, state, batch.running, batch.header->num_running);
  if (count == 0) return 0;
  const u32 publications = batch.running[count - 1].publications_end;
  if (publications > batch.header->num_publications) {
    state.fault = kBadCommand;
    return 0;
  }
  extend_running(team, state, batch.running, count, draft);
  if (state.fault == kNoFault && publications != 0) {
    publish_new(team, state, PublicationList{batch.publications}, publications, draft);
  }
  return state.fault == kNoFault ? count : 0;
}

/// Admits up to the first admission that does not fit. Writes `answers`, and their numbers to
/// `decision`. Returns the Stop.
template <Team T>
BLOCKSTEP_HD inline u32 decide_admissions(T& team, State& state, const Batch& batch, Draft& draft,
                                          DecisionHeader& decision, u32* answers) {
  const BatchHeader& header = *batch.header;
  u32 budget = header.token_budget;
  u32 num_opened = 0;
  u32 num_started = 0;
  const u32* at = batch.admissions;
  for (u32 i = 0; i < header.num_admissions; ++i) {
    if (budget == 0) return kStopBudget;
    if (num_started == header.request_budget) return kStopRequests;
    const Admission& admission = record_at<Admission>(at);
    const u32* keys = at + kWordsOf<Admission>;
    const u64 left = static_cast<u64>(batch.end - at);
    if (left < kWordsOf<Admission> || left - kWordsOf<Admission> < u64{4} * admission.num_keys ||
        !makes_sense(header.block_size, admission)) {
      state.fault = kBadCommand;
      return kNotStopped;
    }
    at = keys + 4 * admission.num_keys;

    const u32 free_row = num_opened < header.num_rows ? batch.rows[num_opened] : kNone;
    AdmissionAnswer answer;
    const u32 spare = num_started != 0 || (header.flags & kOthersRun) != 0 ? header.spare_blocks : 0;
    const u32 stop = admit(team, state, header, admission, keys, free_row, budget, spare, draft, answer);
    if (state.fault != kNoFault) return kNotStopped;
    if (team.rank() == 0) record_at<AdmissionAnswer>(answers + i * kWordsOf<AdmissionAnswer>) = answer;
    decision.num_answers = i + 1;
    if (stop != kNotStopped) return stop;
    decision.num_admitted = i + 1;
    num_opened += admission.row == kNone;
    const bool starts = (admission.flags & kLoadsFirst) == 0;
    num_started += starts;
    budget -= lesser(budget, answer.num_tokens + (starts ? header.draft_slots : 0));
  }
  return kNotStopped;
}

/// Copies `count` words that the team wrote before its last synchronisation.
template <Team T>
BLOCKSTEP_HD inline void copy_words(T& team, u32* to, const u32* from, u32 count) {
  for (u32 i = team.rank(); i < count; i += team.size()) to[i] = from[i];
}

/// Decides a step. Every member of the team calls decide() with the same arguments. `shared` and
/// `decision` may be read when it returns. `decision` has room for decision_words(num_admissions of
/// the batch, max_ids, max_log) words.
///
/// The batch is trusted, like a log: rows are in range and differ, free rows are free, and entries
/// are in order. A broken promise becomes the fault of the decision. The state is then poisoned and
/// the decision is empty. Memory is never accessed out of bounds.
template <Team T>
BLOCKSTEP_HD inline void decide(T& team, State& shared, const u32* words, u32 count, const Workspace& workspace,
                                u32* decision) {
  State state = copy_to_member(shared);
  Draft draft{{workspace.ids, workspace.max_ids, 0, 0, 0}, 0, workspace.log, workspace.max_log, 0};
  DecisionHeader header{};
  u32* answers = decision + kWordsOf<DecisionHeader>;
  Batch batch;
  if (state.fault == kNoFault && !read_batch(words, count, batch)) state.fault = kBadCommand;
  if (state.fault == kNoFault) apply_log(team, state, batch.facts, batch.header->fact_words, draft.results, draft.num_ids);
  if (state.fault == kNoFault) {
    header.num_run = decide_running(team, state, batch, draft);
    if (header.num_run < batch.header->num_running) header.stop = kStopRunning;
  }
  if (state.fault == kNoFault && header.stop == kNotStopped) {
    header.stop = decide_admissions(team, state, batch, draft, header, answers);
  }
  fold_digest(team, shared, state);
  if (state.fault == kNoFault) {
    header.num_ids = draft.num_ids;
    header.log_words = draft.log_words;
  } else {
    header = {};
  }
  u32* ids = answers + header.num_answers * kWordsOf<AdmissionAnswer>;
  copy_words(team, ids, workspace.ids, header.num_ids);
  copy_words(team, ids + header.num_ids, workspace.log, header.log_words);
  if (team.rank() == 0) {
    header.version = kDecisionVersion;
    header.words = static_cast<u32>(ids - decision) + header.num_ids + header.log_words;
    header.fault = state.fault;
    header.num_free = state.num_free;
    header.num_published = state.num_published;
    header.rows_in_use = state.rows_in_use;
    header.rolling_digest[0] = static_cast<u32>(state.rolling_digest);
    header.rolling_digest[1] = static_cast<u32>(state.rolling_digest >> 32);
    header.num_commands[0] = static_cast<u32>(state.num_commands);
    header.num_commands[1] = static_cast<u32>(state.num_commands >> 32);
    record_at<DecisionHeader>(decision) = header;
    shared = state;
  }
  team.sync();
}

}  // namespace blockstep
