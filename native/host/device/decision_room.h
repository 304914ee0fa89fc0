// How long a batch and its decision can become: what a device that decides has memory for.
#pragma once

#include "../../core/decide/batch.h"
#include "device.h"

namespace blockstep {

struct DecisionRoom {
  u32 batch_words;     // longest batch
  u32 max_log;         // longest log of a decision
  u32 decision_words;  // longest decision
};

/// A batch has room for one running entry that publishes a whole row, or for one admission of a whole row; it is cut
/// before it is longer. Of what stands in a batch, the keys of an admission make the longest log: 4 words of a key
/// become 7.
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
