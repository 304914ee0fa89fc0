// decide(): one scheduling step decided by the team itself. It reads a batch (batch.h), and is the author of the log
// that apply() would otherwise be given: every change is a command that is written down first and then carried out by
// the same functions. So whoever applies that log ends up in the same state.
//
// The order is the scheduler's. First the facts. Then all running entries, up to the first for which the free blocks do
// not suffice: one Extend for those before it, and one Publish. Then, if they all fitted, the admissions one by one,
// since each finds what the one before it evicted and published: its cached prefix, its chunk, its blocks; the first
// that does not fit ends the step and has changed nothing. Team code, see team.h.
#pragma once

#include "apply.h"
#include "batch.h"

namespace blockstep {

/// Memory that decide() works in, besides the state: nothing but the team reads it. What the batch can take and log at
/// most is known to its author.
struct Workspace {
  u32* ids;
  u32 max_ids;
  u32* log;
  u32 max_log;
};

/// The log that is being written, and the ids that it takes. The members' copies hold the same numbers.
struct Draft {
  Results results;  // only ids and capacity are used
  u32 num_ids;
  u32* log;
  u32 max_log;
  u32 log_words;
};

/// Keys as a batch holds them.
struct KeyList {
  const u32* words;
  BLOCKSTEP_HD Key operator[](u32 i) const { return key_at(words + 4 * i); }
};

/// Where the payload of the next command goes, or nullptr if fewer than `words` would fit: a fault then.
BLOCKSTEP_HD inline u32* next_payload(State& state, const Draft& draft, u32 words) {
  if (words < draft.max_log - draft.log_words) return draft.log + draft.log_words + 1;
  state.fault = kResultsFull;
  return nullptr;
}

/// Carries out the command whose payload stands behind the draft, and takes it into the log. Whatever members read of
/// the payload that they did not write themselves was synchronised before.
template <Team T>
BLOCKSTEP_HD inline void carry_out(T& team, State& state, Draft& draft, Op op, u32 count) {
  const u32 head = head_word(op, count);
  u32* words = draft.log + draft.log_words;
  if (team.rank() == 0) words[0] = head;
  state.fault = apply_one(team, state, head, words + 1, draft.results, draft.num_ids);
  note_command(team, state);
  draft.log_words += 1 + payload_words(head);
}

/// How many of the leading entries the free blocks suffice for.
template <Team T>
BLOCKSTEP_HD inline u32 count_fitting(T& team, const State& state, const RunningEntry* entries, u32 count) {
  u32 fitting = 0;
  u64 wanted = 0;
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    u32 mine = i < count ? entries[i].num_new : 0;
    if (mine > kMaxBlocksPerRow) mine = kMaxBlocksPerRow;  // refused later; a window's sum does not overflow
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

/// The publications of running entries: a list like a kPublish's payload.
struct PublicationList {
  const u32* words;
  BLOCKSTEP_HD u32 row(u32 i) const { return words[i * kPublishWords]; }
  BLOCKSTEP_HD u32 index(u32 i) const { return words[i * kPublishWords + 1]; }
  BLOCKSTEP_HD const u32* key(u32 i) const { return words + i * kPublishWords + 2; }
};

/// The publications of an admission: blocks of one row from `first` on.
struct RowPublications {
  u32 of_row;
  u32 first;
  const u32* keys;
  BLOCKSTEP_HD u32 row(u32) const { return of_row; }
  BLOCKSTEP_HD u32 index(u32 i) const { return first + i; }
  BLOCKSTEP_HD const u32* key(u32 i) const { return keys + 4 * i; }
};

/// The block of a publication. nullptr if there is none; publish() will say so.
template <class Publications>
BLOCKSTEP_HD inline Block* block_of(const State& state, const Publications& list, u32 i) {
  const Row& row = state.rows[list.row(i)];
  const u32 index = list.index(i);
  return index < row.num_blocks ? &state.blocks[blocks_of(state, list.row(i))[index]] : nullptr;
}

/// Has the block several holders? More than one of them may be about to publish it.
BLOCKSTEP_HD inline bool is_contested(const Block& block) { return block.ref > 1; }

/// One Publish for those of the list that are not published yet. A row's holder may count a block as unpublished that
/// is: a block that two rows share can have been evicted for one of them and published again for the other. Where
/// several entries of the list would publish one block, the first does.
template <Team T, class Publications>
BLOCKSTEP_HD inline void publish_new(T& team, State& state, const Publications& list, u32 count, Draft& draft) {
  u32* entries = next_payload(state, draft, kPublishWords * count);
  if (!entries) return;
  // A held block is not queued, so its `place` is free to hold the first claim: count - i, the larger the earlier.
  bool contested = false;
  for (u32 i = team.rank(); i < count; i += team.size()) {
    Block* block = block_of(state, list, i);
    if (!block || !is_contested(*block)) continue;
    team.store(&block->place, 0);
    contested = true;
  }
  if (any(team, contested)) {
    for (u32 i = team.rank(); i < count; i += team.size()) {
      Block* block = block_of(state, list, i);
      if (block && is_contested(*block)) team.fetch_max(&block->place, count - i);
    }
    team.sync();
  }
  u32 wanted = 0;
  for (u32 base = 0; base < count; base += team.size()) {
    const u32 i = base + team.rank();
    bool wants = i < count;
    if (wants) {
      Block* block = block_of(state, list, i);
      if (block && (block->flags & kPublished)) wants = false;
      if (block && is_contested(*block) && team.load(&block->place) != count - i) wants = false;
    }
    u32 total;
    const u32 at = wanted + team.count(wants, total);
    if (wants) {
      u32* entry = entries + at * kPublishWords;
      entry[0] = list.row(i);
      entry[1] = list.index(i);
      for (u32 word = 0; word < 4; ++word) entry[2 + word] = list.key(i)[word];
    }
    wanted += total;
  }
  if (wanted == 0) return;
  team.sync();
  carry_out(team, state, draft, Op::kPublish, wanted);
}

/// The running entries. Returns how many were done.
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

BLOCKSTEP_HD inline u32 lesser(u32 a, u32 b) { return a < b ? a : b; }
BLOCKSTEP_HD inline u32 greater(u32 a, u32 b) { return a > b ? a : b; }

/// How many of the blocks `ids` nobody holds. Synchronises.
template <Team T>
BLOCKSTEP_HD inline u32 count_free(T& team, const State& state, const u32* ids, u32 count) {
  u32 mine = 0;
  for (u32 i = team.rank(); i < count; i += team.size()) mine += state.blocks[ids[i]].ref == 0;
  u32 total;
  team.scan(mine, total);
  return total;
}

/// Cached leading blocks of an admission, their ids in `ids`. Never the block of the last token: one token must be
/// computed to sample from.
template <Team T>
BLOCKSTEP_HD inline u32 find_prefix(T& team, const State& state, const BatchHeader& header, const u32* keys,
                                    u32* ids, u32 most) {
  const u32 hits = lookup(team, state, KeyList{keys}, most, ids);
  return hits != 0 && (header.flags & kDropLastHit) ? hits - 1 : hits;
}

/// How many leading keys of an admission are looked up.
BLOCKSTEP_HD inline u32 keys_to_find(const BatchHeader& header, const Admission& admission) {
  if (admission.num_computed != 0 || admission.row != kNone) return 0;
  return lesser(admission.num_keys, (admission.num_tokens - 1) / header.block_size);
}

/// One admission, all or nothing: answers kNotStopped and `answer`, or why it does not fit. `free_row` is the row it
/// gets if it holds none, kNone if there is none; `budget` is at least 1.
template <Team T>
BLOCKSTEP_HD inline u32 admit(T& team, State& state, const BatchHeader& header, const Admission& admission,
                              const u32* keys, u32 free_row, u32 budget, Draft& draft, AdmissionAnswer& answer) {
  answer = {kNone, 0, 0, 0, 0, 0};
  const bool opens = admission.row == kNone;
  const bool fresh = admission.num_computed == 0;
  const u32 most = keys_to_find(header, admission);
  u32* open_payload = next_payload(state, draft, most + 1);
  if (!open_payload) return kNotStopped;
  const u32 hits = most == 0 ? 0 : find_prefix(team, state, header, keys, open_payload + 1, most);
  answer.num_hits = hits;

  const u32 computed = fresh ? hits * header.block_size : admission.num_computed;
  u32 chunk = admission.num_tokens - computed;
  if (header.prefill_limit != 0) chunk = lesser(chunk, header.prefill_limit);
  if (chunk > budget) {
    if (!(header.flags & kChunkedPrefill)) return kStopBudget;
    chunk = budget;
  }
  const auto blocks_for = [&](u32 tokens) { return (tokens + header.block_size - 1) / header.block_size; };
  const u32 needed = lesser(computed + chunk + (fresh ? 0 : header.lookahead), header.slot_limit);
  const u32 held = opens ? hits : state.rows[admission.row].num_blocks;
  const u32 total = greater(blocks_for(needed), held);
  const u32 reserve = header.flags & kReserveAll ? greater(blocks_for(admission.num_tokens), total) : total;
  // Hits that nobody holds leave the queue too.
  const u32 hit_free = hits == 0 ? 0 : count_free(team, state, open_payload + 1, hits);
  if (u64{reserve} - held + hit_free > state.num_free) return kStopBlocks;
  const u32 row = opens ? free_row : admission.row;
  if (row == kNone) return kStopRows;

  answer.row = row;
  answer.num_tokens = chunk;
  answer.num_blocks = total;
  answer.num_new = total - held;
  answer.first_id = draft.num_ids;
  if (opens) {
    if (team.rank() == 0) open_payload[0] = row;
    team.sync();
    carry_out(team, state, draft, Op::kOpen, hits);
  }
  if (state.fault == kNoFault && total > held) {
    u32* pair = next_payload(state, draft, 2);
    if (!pair) return kNotStopped;
    if (team.rank() == 0) {  // who also is the only one to read it
      pair[0] = row;
      pair[1] = total - held;
    }
    carry_out(team, state, draft, Op::kExtend, 1);
  }
  if (state.fault != kNoFault) return kNotStopped;
  const u32 first_key = opens ? 0 : admission.num_published;
  const u32 published = opens ? hits : admission.num_published;
  const u32 full = lesser((computed + chunk) / header.block_size, total);
  const u32 publish_to = lesser(full, first_key + admission.num_keys);
  if (publish_to > published) {
    const u32* unpublished = keys + 4 * (published - first_key);
    publish_new(team, state, RowPublications{row, published, unpublished}, publish_to - published, draft);
  }
  return kNotStopped;
}

/// The admissions, up to the first that does not fit. `decision` gets its answers and their number.
template <Team T>
BLOCKSTEP_HD inline u32 decide_admissions(T& team, State& state, const Batch& batch, Draft& draft,
                                          DecisionHeader& decision, u32* answers) {
  const BatchHeader& header = *batch.header;
  u32 budget = header.token_budget;
  u32 num_opened = 0;
  const u32* at = batch.admissions;
  for (u32 i = 0; i < header.num_admissions; ++i) {
    if (budget == 0) return kStopBudget;
    if (decision.num_admitted == header.request_budget) return kStopRequests;
    const Admission& admission = record_at<Admission>(at);
    const u32* keys = at + kWordsOf<Admission>;
    const u64 left = static_cast<u64>(batch.end - at);
    if (left < kWordsOf<Admission> || left - kWordsOf<Admission> < u64{4} * admission.num_keys ||
        admission.num_computed >= admission.num_tokens) {
      state.fault = kBadCommand;
      return kNotStopped;
    }
    at = keys + 4 * admission.num_keys;

    const u32 free_row = num_opened < header.num_rows ? batch.rows[num_opened] : kNone;
    AdmissionAnswer answer;
    const u32 stop = admit(team, state, header, admission, keys, free_row, budget, draft, answer);
    if (state.fault != kNoFault) return kNotStopped;
    if (team.rank() == 0) record_at<AdmissionAnswer>(answers + i * kWordsOf<AdmissionAnswer>) = answer;
    decision.num_answers = i + 1;
    if (stop != kNotStopped) return stop;
    decision.num_admitted = i + 1;
    num_opened += admission.row == kNone;
    budget -= answer.num_tokens;
  }
  return kNotStopped;
}

/// Copies `count` words that the team wrote. They were synchronised before.
template <Team T>
BLOCKSTEP_HD inline void copy_words(T& team, u32* to, const u32* from, u32 count) {
  for (u32 i = team.rank(); i < count; i += team.size()) to[i] = from[i];
}

/// Decides a step. Every member of the team calls it with the same arguments; `shared` and `decision` may be read again
/// when it returns. `decision` has room for decision_words(admissions of the batch, max_ids, max_log).
///
/// The batch is trusted as a log is: rows are in range and differ, free ones are free, entries are in order. A promise
/// that breaks nevertheless is a fault in the decision: the state is poisoned, what was decided counts for nothing, and
/// memory is never touched out of bounds.
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
  if (state.fault != kNoFault) header = {};
  else header.num_ids = draft.num_ids, header.log_words = draft.log_words;
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
