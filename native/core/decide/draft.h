// Draft: the log that decide() writes. Each command is first written to the log, then carried out
// from there. Team code, see team.h.
#pragma once

#include "../blocks/apply.h"
#include "batch.h"

namespace blockstep {

/// Scratch memory of decide(), which only the team reads. The author of the batch knows the maximum
/// number of blocks that the decision takes (max_ids), and of words of its log (max_log).
struct Workspace {
  u32* ids;
  u32 max_ids;
  u32* log;
  u32 max_log;
};

/// The unfinished log, and the ids of the blocks that it takes. Every member has a copy with the
/// same values.
struct Draft {
  Results results;  // only ids and capacity are used
  u32 num_ids;
  u32* log;
  u32 max_log;
  u32 log_words;
};

/// Returns the place of the next command's payload. If `words` words do not fit, sets the fault and
/// returns nullptr.
BLOCKSTEP_HD inline u32* next_payload(State& state, const Draft& draft, u32 words) {
  if (words < draft.max_log - draft.log_words) return draft.log + draft.log_words + 1;
  state.fault = kResultsFull;
  return nullptr;
}

/// Carries out the command whose payload is at next_payload(), and makes it part of the log. The
/// team must have synchronised since it wrote the payload, unless members read only their own
/// words.
template <Team T>
BLOCKSTEP_HD inline void carry_out(T& team, State& state, Draft& draft, Op op, u32 count) {
  const u32 head = head_word(op, count);
  u32* words = draft.log + draft.log_words;
  if (team.rank() == 0) words[0] = head;
  state.fault = apply_one(team, state, head, words + 1, draft.results, draft.num_ids);
  note_command(team, state);
  draft.log_words += 1 + payload_words(head);
}

/// The publications of running entries: a list of words like the payload of kPublish.
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

/// The block of a publication, or nullptr if the row has no such block. publish() will report that
/// fault.
template <class Publications>
BLOCKSTEP_HD inline Block* block_of(const State& state, const Publications& list, u32 i) {
  const Row& row = state.rows[list.row(i)];
  const u32 index = list.index(i);
  return index < row.num_blocks ? &state.blocks[blocks_of(state, list.row(i))[index]] : nullptr;
}

/// Whether several rows or pins hold the block. Several publications of the list may then name it.
BLOCKSTEP_HD inline bool is_contested(const Block& block) { return block.ref > 1; }

/// Writes and carries out one Publish for the unpublished blocks of the list. The list may name a
/// published block: a block that two rows share can be evicted through one row and published again
/// through the other. If several entries of the list name one block, the first entry publishes it.
template <Team T, class Publications>
BLOCKSTEP_HD inline void publish_new(T& team, State& state, const Publications& list, u32 count, Draft& draft) {
  u32* entries = next_payload(state, draft, kPublishWords * count);
  if (!entries) return;
  // A held block is not queued, so its `place` can hold the first claim: count - i, larger for
  // earlier entries.
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

}  // namespace blockstep
