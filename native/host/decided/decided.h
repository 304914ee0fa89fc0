// The words in which TypeScript asks for a step that the device decides, and gets the answer: Int32 words, which
// src/core/decision.ts names alike. decisions.h says what is behind them.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// The head of a request. kRequestAdmission words follow for each admission, the best one first.
enum RequestWord : u32 {
  kAskTokens,    // tokens that the admissions may be given together
  kAskRequests,  // how many of them may enter the running ones
  kAskFlags,   // BatchFlag
  kAskPrefillLimit,   // most tokens that one admission gets; 0: no such limit
  kAskSlotLimit,      // tokens of one request that can ever have room; 1 .. max_model_len
  kAskAdmissions,
  kRequestHead = 8  // the others are 0
};

/// An admission of a request.
struct RequestAdmission {
  std::int32_t slot;
  std::int32_t num_computed;  // 0: nothing, so that the prefix cache is asked
  std::int32_t num_external;  // as in Admission, and so are the next two
  std::int32_t num_hits;      // -1: as many as are cached
  std::int32_t flags;
};
constexpr u32 kRequestAdmission = sizeof(RequestAdmission) / 4;

/// The head of an answer. kAnswerAdmission words follow for each admission that was looked at.
enum AnswerWord : u32 {
  kAnswerStop,  // Stop, or kStopBatch
  kNumRun,      // entries of the frame that were done
  kNumAnswers,  // admissions that were looked at
  kNumAdmitted,
  kAnswerHead = 8  // the others are 0
};

/// The batch was full: the rest is to be asked for in another batch. Follows the values of Stop.
constexpr u32 kStopBatch = 7;

/// What became of an admission. One that was not admitted has the row -1 and num_hits as found; the rest of it is 0.
struct AnswerAdmission {
  std::int32_t row;
  std::int32_t num_hits;
  std::int32_t num_tokens;    // to be computed in this step
  std::int32_t num_blocks;    // of its row
  std::int32_t num_new;       // of these, taken from the queue
  std::int32_t num_computed;  // tokens before this step: cached, brought, or computed earlier
};
constexpr u32 kAnswerAdmission = sizeof(AnswerAdmission) / 4;

}  // namespace blockstep
