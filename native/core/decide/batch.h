// The records of a step that the team decides: the batch that decide() reads, and the decision that it answers with.
// Both are flat u32 words, like the log; the structs below give the words names.
//
// A batch is, in this order and without gaps:
//
//   header         BatchHeader
//   facts          fact_words words: a log that is applied before anything is decided, mostly releases
//   running        num_running x RunningEntry: the running requests in plan order
//   publications   num_publications x (row, index, key), as in kPublish: blocks that running entries fill, in order
//   rows           num_rows rows that are free after the facts; admissions get them in this order
//   admissions     num_admissions x (Admission, key x num_keys): the waiting requests, best first; a key is 4 words
//
// A decision is:
//
//   header         DecisionHeader
//   answers        num_answers x AdmissionAnswer: one for each admission that was looked at; all but perhaps the last
//                  were admitted
//   ids            num_ids words: the blocks taken, first those of the running entries, then those of the admissions,
//                  in their order
//   log            log_words words: the commands that were decided and applied. Applied elsewhere after the facts, they
//                  give the same state with the same rolling digest.
#pragma once

#include "../base/command.h"

namespace blockstep {

/// Versions of the words of a batch and of a decision.
constexpr u32 kBatchVersion = 2;
constexpr u32 kDecisionVersion = 1;

/// Bits of BatchHeader::flags.
enum BatchFlag : u32 {
  kChunkedPrefill = 1u << 0,  // an admission with more tokens than the budget has left gets what is left
  kReserveAll = 1u << 1,      // an admission needs free blocks for all its tokens, not only for the first chunk
  kDropLastHit = 1u << 2,     // the last block of every hit is computed again (EAGLE)
  kAheadAlways = 1u << 3,     // lookahead is for every admission but those that load first, whatever they have computed
  kOthersRun = 1u << 4,       // requests run before anything is admitted, so spare_blocks stay free from the start
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
  u32 token_budget;    // tokens that all admissions together may be given
  u32 request_budget;  // how many may be admitted, not counting those that load first (kLoadsFirst)
  u32 block_size;
  u32 prefill_limit;   // most tokens that one admission gets (longPrefillTokenThreshold); 0: no such limit
  u32 lookahead;       // tokens to have room for behind the chunk, if num_computed is not 0 (or kAheadAlways)
  u32 slot_limit;      // most tokens that one request can have room for
  u32 draft_slots;     // tokens of the budget that an admission costs on top of its own, unless it loads first
  u32 padding;         // tokens that an admission of one token gets on top (kPads): drafts that nobody made
  u32 model_limit;     // most tokens that such an admission may come to
  u32 spare_blocks;    // blocks that every admission leaves free while others run
  u32 kept_blocks;     // blocks that must be free beside those of an admission that loads first
  u32 reserved;        // 0
};
static_assert(sizeof(BatchHeader) == 80);

/// A running request's share of the batch.
struct RunningEntry {
  u32 row;               // in use, and in no other entry
  u32 num_new;           // blocks that it needs beyond those it has; may be 0
  u32 publications_end;  // number of publications of this entry and of all entries before it
};
static_assert(sizeof(RunningEntry) == 12);

/// A waiting request.
struct Admission {
  u32 num_tokens;     // known tokens; at most slot_limit
  u32 num_computed;   // below num_tokens. 0: the cached prefix counts as computed, and num_external tokens behind it
  u32 row;            // the row that the request holds, or kNone: it gets the next of the free rows
  u32 num_published;  // leading blocks of that row that need no publication; the keys begin behind them
  u32 num_keys;       // keys that follow: those of the full blocks of its tokens; 0 without prefix caching
  u32 num_hits;       // kNone: all cached blocks. Otherwise exactly this many: a connector was told of them
  u32 num_external;   // tokens that a connector loads, behind exactly num_hits blocks
  u32 flags;          // AdmissionFlag
};
static_assert(sizeof(Admission) == 32);

/// Bits of Admission::flags.
enum AdmissionFlag : u32 {
  kLoadsFirst = 1u << 0,  // external tokens are still to be loaded: gets blocks, computes and publishes nothing
  kPads = 1u << 1,        // if one token is left to compute, `padding` tokens are added to it
};

/// Whether the fields of an admission fit together: tokens are left to compute or to load, and an admission with
/// external tokens names its number of hits.
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

/// Tokens that an admission gets on top of its own, of which `missing` are not computed.
BLOCKSTEP_HD inline u32 padding_of(u32 padding, const Admission& admission, u32 missing) {
  return missing == 1 && (admission.flags & kPads) != 0 ? padding : 0;
}

/// Why a decision ends before the end of its batch. The entries and admissions before that point stand.
enum Stop : u32 {
  kNotStopped = 0,
  kStopRunning,   // the free blocks do not suffice for running entry num_run; no admission was looked at
  kStopBudget,    // no token is left, or too few for the admission: prefills are not chunked, or it is padded
  kStopRequests,  // request_budget requests were admitted
  kStopBlocks,    // the free blocks do not suffice for the admission
  kStopRows,      // the free blocks suffice, but no row is free
  kStopHits,      // fewer blocks are cached than the admission's num_hits
};

/// The head of a decision. num_free and the fields behind it are those of the state after the decision.
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

/// The answer to one admission. If the request was not admitted, row is kNone, num_hits is as found, and the rest is 0.
struct AdmissionAnswer {
  u32 row;
  u32 num_hits;    // cached blocks at the front of the row
  u32 num_tokens;  // tokens to compute in this step, padding included
  u32 num_blocks;  // blocks of its row
  u32 num_new;     // how many of these blocks were taken from the queue; they are the last ones
  u32 first_id;    // index of the first block taken, among the ids of the decision
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

/// The most words that a decision can have, with at most `max_ids` ids and a log of `max_log` words.
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

/// Finds the sections of a batch in `count` words. False if they do not fit, or the version is another one.
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
