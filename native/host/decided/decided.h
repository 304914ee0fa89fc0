// TypeScript's request for a step that the device decides, and the answer. Both are Int32 words,
// which src/core/decision.ts names in the same way. decisions.h explains such a step.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// The head of a request. kRequestAdmission words follow for each admission, best admission first.
enum RequestWord : u32 {
  kAskTokens,    // tokens that all admissions together may get
  kAskRequests,  // maximum number of admissions that start running
  kAskFlags,   // BatchFlag
  kAskPrefillLimit,   // most tokens that one admission gets; 0: no limit
  kAskSlotLimit,      // most tokens that one request can have room for; 1 .. max_model_len
  kAskAdmissions,     // number of admissions
  kAskDraftSlots,     // additional tokens that each admission costs, unless it loads first
  kAskPadding,        // additional tokens of an admission of one token (kPads)
  kAskSpareBlocks,    // blocks that every admission leaves free while others run
  kAskKeptBlocks,     // blocks that must also be free if an admission loads first
  kRequestHead = 12   // words; the others are 0
};

/// An admission of a request.
struct RequestAdmission {
  std::int32_t slot;
  std::int32_t num_computed;  // tokens that were computed earlier; 0: the prefix cache is looked up
  std::int32_t num_external;  // this field and the next two as in Admission
  std::int32_t num_hits;      // -1: all cached blocks
  std::int32_t flags;
};
constexpr u32 kRequestAdmission = sizeof(RequestAdmission) / 4;

/// The head of an answer. kAnswerAdmission words follow for each admission that was tried.
enum AnswerWord : u32 {
  kAnswerStop,  // Stop, or kStopBatch
  kNumRun,      // entries of the frame that were completed
  kNumAnswers,  // admissions that were tried
  kNumAdmitted,
  kAnswerHead = 8  // words; the others are 0
};

/// An additional stop: the batch had no room for everything, and TypeScript must send the rest in
/// another request.
constexpr u32 kStopBatch = 7;

/// The answer to one admission. If the request was not admitted, row is -1, num_hits is as found,
/// and the other fields are 0.
struct AnswerAdmission {
  std::int32_t row;
  std::int32_t num_hits;
  std::int32_t num_tokens;    // tokens to compute in this step
  std::int32_t num_blocks;    // blocks of the row
  std::int32_t num_new;       // blocks of the row that were taken from the queue
  std::int32_t num_computed;  // tokens before this step: cached, loaded, or computed earlier
};
constexpr u32 kAnswerAdmission = sizeof(AnswerAdmission) / 4;

}  // namespace blockstep
