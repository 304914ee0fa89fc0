// The maximum sizes of a batch and a decision, for which a device that decides allocates memory.
#pragma once

#include "../../core/decide/batch.h"
#include "device.h"

namespace blockstep {

struct DecisionRoom {
  u32 batch_words;     // words of the longest batch
  u32 max_log;         // words of the longest log in a decision
  u32 decision_words;  // words of the longest decision
};

/// A batch has room for at least one running entry that publishes a whole row, or one admission of
/// a whole row. Entries that would make a batch longer go into the next batch. Twice the words of
/// the batch are enough for the log. The keys of an admission make the longest log of all parts: 7
/// words for the 4 of a key.
constexpr DecisionRoom decision_room(const Config& config) {
  constexpr u32 kLine = 16;
  const u32 row = kWordsOf<BatchHeader> + kWordsOf<Admission> + 1 + kPublishWords * config.max_blocks_per_row;
  const u32 batch = ((row > kSlotWords ? row : kSlotWords) + kLine - 1) / kLine * kLine;
  const u32 log = 2 * batch;
  const u64 decision = decision_words(batch / kWordsOf<Admission>, config.num_blocks, log);
  return {batch, log, static_cast<u32>(decision)};
}
static_assert(kWordsOf<Admission> > kWordsOf<RunningEntry>);

}  // namespace blockstep
