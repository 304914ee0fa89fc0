// The records of a step that the team decides: the batch that decide() reads, and the decision that
// it writes. Both are flat u32 words, like the log. The structs below name the words.
//
// A batch consists, in this order and without gaps, of:
//
//   header         BatchHeader
//   facts          fact_words words: a log that is applied before the decisions, mostly releases
//   running        num_running x RunningEntry: the running requests in plan order
//   publications   num_publications x (row, index, key), as in kPublish: blocks that running
//                  entries fill, in order
//   rows           num_rows rows that are free after the facts; admissions get them in this order
//   admissions     num_admissions x (Admission, key x num_keys): the waiting requests, best first;
//                  a key is 4 words
//
// A decision consists of:
//
//   header         DecisionHeader
//   answers        num_answers x AdmissionAnswer: one for each admission that was tried; all but
//                  perhaps the last were admitted
//   ids            num_ids words: the blocks taken, first for the running entries, then for the
//                  admissions, in their order
//   log            log_words words: the decided and applied commands. Applied elsewhere after the
//                  facts, they give the same state with the same rolling digest.
#pragma once

#include "../base/command.h"

namespace blockstep {

/// Versions of the words of a batch and of a decision.
constexpr u32 kBatchVersion = 2;
constexpr u32 kDecisionVersion = 1;

/// Bits of BatchHeader::flags.
enum BatchFlag : u32 {
  kChunkedPrefill = 1u << 0,  // an admission larger than the budget gets the rest of the budget
  kReserveAll = 1u << 1,      // an admission needs free blocks for all its tokens, not only a chunk
  kDropLastHit = 1u << 2,     // the last block of every hit is computed again (EAGLE)
  kAheadAlways = 1u << 3,     // lookahead for every admission that does not load first
  kOthersRun = 1u << 4,       // requests already run, so spare_blocks apply from the start
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
  u32 token_budget;    // tokens that all admissions together may get
  u32 request_budget;  // number of admissions, without those that load first (kLoadsFirst)
  u32 block_size;
  u32 prefill_limit;   // most tokens of one admission (longPrefillTokenThreshold); 0: no limit
  u32 lookahead;       // tokens of room behind the chunk, if num_computed > 0 or kAheadAlways
  u32 slot_limit;      // most tokens that one request can have room for
  u32 draft_slots;     // additional budget that an admission costs, unless it loads first
  u32 padding;         // additional tokens of an admission of one token (kPads), as drafts
  u32 model_limit;     // most tokens of such an admission
  u32 spare_blocks;    // blocks that every admission leaves free while others run
  u32 kept_blocks;     // blocks that must also be free if an admission loads first
  u32 reserved;        // 0
};
static_assert(sizeof(BatchHeader) == 80);

/// A running request's share of the batch.
struct RunningEntry {
  u32 row;               // in use, and in no other entry
  u32 num_new;           // blocks that it needs in addition to its own; may be 0
  u32 publications_end;  // number of publications of this entry and all earlier entries
};
static_assert(sizeof(RunningEntry) == 12);

/// A waiting request.
struct Admission {
  u32 num_tokens;     // known tokens; at most slot_limit
  u32 num_computed;   // below num_tokens; 0: cached prefix + num_external count as computed
  u32 row;            // the row that the request holds, or kNone: it gets the next free row
  // Leading blocks of that row that need no publication; the keys begin behind them.
  u32 num_published;
  u32 num_keys;       // keys that follow, of its full blocks; 0 without prefix caching
  // kNone: all cached blocks. Otherwise exactly this number, which a connector was told.
  u32 num_hits;
  u32 num_external;   // tokens that a connector loads, behind exactly num_hits blocks
  u32 flags;          // AdmissionFlag
};
static_assert(sizeof(Admission) == 32);

/// Bits of Admission::flags.
enum AdmissionFlag : u32 {
  kLoadsFirst = 1u << 0,  // still loads external tokens: gets blocks, computes nothing
  kPads = 1u << 1,        // if one token is left to compute, `padding` tokens are added
};

/// Whether the fields of an admission fit together. Tokens must be left to compute or to load, and
/// an admission with external tokens must name its number of hits.
BLOCKSTEP_HD inline bool makes_sense(u32 block_size, const Admission& admission) {
  const bool loads = (admission.flags & kLoadsFirst) != 0;
  if (admission.num_computed >= admission.num_tokens || (loads && (admission.flags & kPads) != 0)) return false;
  if (admission.num_hits == kNone) return admission.num_external == 0 && !loads;
  if (admission.num_computed != 0) return admission.num_hits == 0 && admission.num_external == 0 && !loads;
  const u64 known = u64{admission.num_hits} * block_size + admission.num_external;
  return loads ? known <= admission.num_tokens : known < admission.num_tokens;
}

/// Tokens of an admission with `num_hits` hits that need not be computed.
BLOCKSTEP_HD inline u32 computed_tokens(u32 block_size, const Admission& admission, u32 num_hits) {
  if (admission.num_computed != 0) return admission.num_computed;
  return num_hits * block_size + admission.num_external;
}

/// Additional tokens of an admission, of which `missing` tokens are not computed.
BLOCKSTEP_HD inline u32 padding_of(u32 padding, const Admission& admission, u32 missing) {
  return missing == 1 && (admission.flags & kPads) != 0 ? padding : 0;
}

/// Why a decision ends before the end of its batch. The earlier entries and admissions are valid.
enum Stop : u32 {
  kNotStopped = 0,
  kStopRunning,   // too few free blocks for running entry num_run; no admission was tried
  kStopBudget,    // no token left, or too few for a padded or unchunked admission
  kStopRequests,  // request_budget requests were admitted
  kStopBlocks,    // too few free blocks for the admission
  kStopRows,      // enough free blocks, but no free row
  kStopHits,      // fewer blocks are cached than the admission's num_hits
};

/// The head of a decision. num_free and the following fields describe the state after the decision.
struct DecisionHeader {
  u32 version;  // kDecisionVersion
  u32 words;    // of the whole decision
  u32 fault;    // Fault; any other than kNoFault has poisoned the state
  u32 stop;     // Stop
  u32 num_run;  // number of running entries that were completed
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

/// The answer to one admission. If the request was not admitted, row is kNone, num_hits is as
/// found, and the other fields are 0.
struct AdmissionAnswer {
  u32 row;
  u32 num_hits;    // cached blocks at the front of the row
  u32 num_tokens;  // tokens to compute in this step, padding included
  u32 num_blocks;  // blocks of its row
  // Number of these blocks that were taken from the queue; they are the last blocks.
  u32 num_new;
  u32 first_id;    // index of the first block taken, among the ids of the decision
};
static_assert(sizeof(AdmissionAnswer) == 24);

/// Number of words of a record.
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

/// The maximum number of words of a decision with at most `max_ids` ids and a log of `max_log`
/// words.
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

/// Finds the sections of a batch in `count` words. Returns false if they do not fit, or if the
/// version differs.
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
