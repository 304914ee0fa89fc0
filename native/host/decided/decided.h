// The request by which TypeScript asks for a step that the device decides, and the answer to it. Both are Int32 words,
// to which src/core/decision.ts gives the same names. decisions.h explains such a step.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// The head of a request. kRequestAdmission words follow for each admission, the best one first.
enum RequestWord : u32 {
  kAskTokens,    // tokens that all admissions together may be given
  kAskRequests,  // how many admissions may start running
  kAskFlags,   // BatchFlag
  kAskPrefillLimit,   // most tokens that one admission gets; 0: no such limit
  kAskSlotLimit,      // most tokens that one request can have room for; 1 .. max_model_len
  kAskAdmissions,     // number of admissions
  kAskDraftSlots,     // tokens that each admission costs on top of its own, unless it loads first
  kAskPadding,        // tokens that an admission of one token gets on top (kPads)
  kAskSpareBlocks,    // blocks that every admission leaves free while others run
  kAskKeptBlocks,     // blocks that must be free beside those of an admission that loads first
  kRequestHead = 12   // words; the others are 0
};

/// An admission of a request.
struct RequestAdmission {
  std::int32_t slot;
  std::int32_t num_computed;  // tokens computed already; 0: the prefix cache is looked up
  std::int32_t num_external;  // this and the next two as in Admission
  std::int32_t num_hits;      // -1: all cached blocks
  std::int32_t flags;
};
constexpr u32 kRequestAdmission = sizeof(RequestAdmission) / 4;

/// The head of an answer. kAnswerAdmission words follow for each admission that was looked at.
enum AnswerWord : u32 {
  kAnswerStop,  // Stop, or kStopBatch
  kNumRun,      // entries of the frame that were done
  kNumAnswers,  // admissions that were looked at
  kNumAdmitted,
  kAnswerHead = 8  // words; the others are 0
};

/// A stop besides those of Stop: the batch had no room for everything, and TypeScript must ask for the rest in another
/// request.
constexpr u32 kStopBatch = 7;

/// The answer to one admission. If the request was not admitted, row is -1, num_hits is as found, and the rest is 0.
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
