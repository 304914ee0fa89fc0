// The records of a step that is decided by the team: what decide() reads and what it answers. Flat u32 words, like the
// log; the structs below only give the words names.
//
// A batch is, in this order and without gaps:
//
//   header         BatchHeader
//   facts          fact_words words: a log as command.h lists it, applied before anything is decided (releases mostly)
//   running        num_running x RunningEntry: the requests that go on, in the order of the plan
//   publications   num_publications x (row, index, key), as in kPublish: what the running entries fill, entry by entry
//   rows           num_rows rows that are free once the facts are applied; the admissions get them in this order
//   admissions     num_admissions x (Admission, key x num_keys): the requests to admit, best first; a key is 4 words
//
// A decision is:
//
//   header         DecisionHeader
//   answers        num_answers x AdmissionAnswer: for every admission that was looked at, the last of them perhaps not
//                  admitted
//   ids            num_ids words: the blocks taken, those of the running entries in their order, then those of the
//                  admissions
//   log            log_words words: the commands that were decided and applied. Whoever applies them behind the facts
//                  ends up in the same state, with the same rolling digest.
#pragma once

#include "../base/command.h"

namespace blockstep {

/// Versions of the words of a batch and of a decision.
constexpr u32 kBatchVersion = 1;
constexpr u32 kDecisionVersion = 1;

/// Bits of BatchHeader::flags.
enum BatchFlag : u32 {
  kChunkedPrefill = 1u << 0,  // an admission that is larger than the budget gets what is left of it
  kReserveAll = 1u << 1,      // an admission needs free blocks for all its tokens, not only for the first chunk
  kDropLastHit = 1u << 2,     // the last block of every hit is computed again (EAGLE)
};

/// The head of a batch. Token counts are below 2^31, block_size and lookahead at most 2^16.
struct BatchHeader {
  u32 version;  // kBatchVersion
  u32 words;    // of the whole batch
  u32 fact_words;
  u32 num_running;
  u32 num_publications;
  u32 num_rows;
  u32 num_admissions;
  u32 flags;           // BatchFlag
  u32 token_budget;    // tokens that the admissions may be given together
  u32 request_budget;  // how many of them may be admitted, not counting those that load first
  u32 block_size;
  u32 prefill_limit;   // most tokens that one admission gets (longPrefillTokenThreshold); 0: no such limit
  u32 lookahead;       // tokens to have room for beyond the chunk, where something is computed already
  u32 slot_limit;      // tokens of one request that can ever have room
  u32 reserved[2];     // 0
};
static_assert(sizeof(BatchHeader) == 64);

/// A running request's share of the batch.
struct RunningEntry {
  u32 row;               // in use, and in no other entry
  u32 num_new;           // blocks that it needs beyond those it has; may be 0
  u32 publications_end;  // publications of this entry and of those before it
};
static_assert(sizeof(RunningEntry) == 12);

/// A waiting request.
struct Admission {
  u32 num_tokens;     // known tokens; at most slot_limit
  u32 num_computed;   // below num_tokens. 0: what the prefix cache holds counts as computed, and num_external behind it
  u32 row;            // the row it holds, or kNone: it gets the next of the free rows
  u32 num_published;  // leading blocks of that row that need no publication; the keys begin behind them
  u32 num_keys;       // keys of the full blocks of its tokens that follow; 0 without prefix caching
  u32 num_hits;       // kNone: as many cached blocks as there are. Otherwise the first num_hits, of which somebody was told
  u32 num_external;   // tokens that come from elsewhere, behind exactly num_hits blocks
  u32 flags;          // AdmissionFlag
};
static_assert(sizeof(Admission) == 32);

/// Bits of Admission::flags.
enum AdmissionFlag : u32 {
  kLoadsFirst = 1u << 0,  // num_external tokens are on their way: it gets blocks for them, and neither tokens nor publications
};

/// Is something left to compute, or to load? A load names the number of hits that it comes behind.
BLOCKSTEP_HD inline bool makes_sense(u32 block_size, const Admission& admission) {
  const bool loads = (admission.flags & kLoadsFirst) != 0;
  if (admission.num_computed >= admission.num_tokens) return false;
  if (admission.num_hits == kNone) return admission.num_external == 0 && !loads;
  if (admission.num_computed != 0) return admission.num_hits == 0 && admission.num_external == 0 && !loads;
  const u64 known = u64{admission.num_hits} * block_size + admission.num_external;
  return loads ? known <= admission.num_tokens : known < admission.num_tokens;
}

/// Tokens that an admission with so many hits need not compute.
BLOCKSTEP_HD inline u32 computed_tokens(u32 block_size, const Admission& admission, u32 num_hits) {
  if (admission.num_computed != 0) return admission.num_computed;
  return num_hits * block_size + admission.num_external;
}

/// Why a decision ends before the end of its batch. What was decided before it stands.
enum Stop : u32 {
  kNotStopped = 0,
  kStopRunning,   // the free blocks do not suffice for running entry num_run; no admission was looked at
  kStopBudget,    // no token is left, or too few for the admission while prefills are not chunked
  kStopRequests,  // as many were admitted as may be
  kStopBlocks,    // the free blocks do not suffice for the admission
  kStopRows,      // they do, and no row is free
  kStopHits,      // fewer blocks are cached than the admission's num_hits
};

/// The head of a decision. The counts are those after it.
struct DecisionHeader {
  u32 version;  // kDecisionVersion
  u32 words;    // of the whole decision
  u32 fault;    // Fault; anything but kNoFault is a broken promise of the batch, and has poisoned the state
  u32 stop;     // Stop
  u32 num_run;  // running entries that were done
  u32 num_admitted;
  u32 num_answers;
  u32 num_ids;
  u32 log_words;
  u32 num_free;
  u32 num_published;
  u32 rows_in_use;
  u32 rolling_digest[2];  // low word first
  u32 num_commands[2];
};
static_assert(sizeof(DecisionHeader) == 64);

/// What became of an admission. One that was not admitted has the row kNone and num_hits as found; the rest of it is 0.
struct AdmissionAnswer {
  u32 row;
  u32 num_hits;    // cached blocks that it was given
  u32 num_tokens;  // tokens to compute in this step
  u32 num_blocks;  // blocks of its row
  u32 num_new;     // how many of them were taken from the queue; they are the last ones
  u32 first_id;    // index of the first of those among the ids of the decision
};
static_assert(sizeof(AdmissionAnswer) == 24);

/// Words of a record.
template <class Record>
constexpr u32 kWordsOf = sizeof(Record) / sizeof(u32);

/// The record that begins at `words`.
template <class Record>
BLOCKSTEP_HD inline const Record& record_at(const u32* words) {
  return *reinterpret_cast<const Record*>(words);
}
template <class Record>
BLOCKSTEP_HD inline Record& record_at(u32* words) {
  return *reinterpret_cast<Record*>(words);
}

/// Room that a decision needs at most.
constexpr u64 decision_words(u32 num_admissions, u32 max_ids, u32 max_log) {
  return kWordsOf<DecisionHeader> + u64{num_admissions} * kWordsOf<AdmissionAnswer> + max_ids + max_log;
}

/// The sections of a batch.
struct Batch {
  const BatchHeader* header;
  const u32* facts;
  const RunningEntry* running;
  const u32* publications;
  const u32* rows;
  const u32* admissions;
  const u32* end;
};

/// Finds the sections. False if they do not fit into `words`, or are of another version.
BLOCKSTEP_HD inline bool read_batch(const u32* words, u32 count, Batch& batch) {
  if (count < kWordsOf<BatchHeader>) return false;
  const BatchHeader& header = record_at<BatchHeader>(words);
  if (header.version != kBatchVersion || header.words > count || header.block_size == 0) return false;
  const u64 running = u64{kWordsOf<BatchHeader>} + header.fact_words;
  const u64 publications = running + u64{header.num_running} * kWordsOf<RunningEntry>;
  const u64 rows = publications + u64{header.num_publications} * kPublishWords;
  const u64 admissions = rows + header.num_rows;
  if (admissions > header.words) return false;
  batch.header = &header;
  batch.facts = words + kWordsOf<BatchHeader>;
  batch.running = &record_at<RunningEntry>(words + running);
  batch.publications = words + publications;
  batch.rows = words + rows;
  batch.admissions = words + admissions;
  batch.end = words + header.words;
  return true;
}

}  // namespace blockstep
