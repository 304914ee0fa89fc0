// admit(): one admission of a decision. The request gets its cached prefix, its chunk and its
// blocks, or nothing. Team code, see team.h.
#pragma once

#include "draft.h"

namespace blockstep {

/// The keys of an admission, in the words of a batch.
struct KeyList {
  const u32* words;
  BLOCKSTEP_HD Key operator[](u32 i) const { return key_at(words + 4 * i); }
};

BLOCKSTEP_HD inline u32 lesser(u32 a, u32 b) { return a < b ? a : b; }
BLOCKSTEP_HD inline u32 greater(u32 a, u32 b) { return a > b ? a : b; }

/// Number of blocks among `ids` that are free. Synchronises.
template <Team T>
BLOCKSTEP_HD inline u32 count_free(T& team, const State& state, const u32* ids, u32 count) {
  u32 mine = 0;
  for (u32 i = team.rank(); i < count; i += team.size()) mine += state.blocks[ids[i]].ref == 0;
  u32 total;
  team.scan(mine, total);
  return total;
}

/// Number of leading keys of an admission that are looked up. The block of the last token is
/// excluded, because at least one token must be computed for sampling.
BLOCKSTEP_HD inline u32 keys_to_find(const BatchHeader& header, const Admission& admission) {
  if (admission.num_computed != 0 || admission.row != kNone) return 0;
  const u32 most = lesser(admission.num_keys, (admission.num_tokens - 1) / header.block_size);
  return lesser(most, admission.num_hits);
}

/// Computes the answer to an admission, without changing the state. Returns kNotStopped, or why the
/// admission does not fit. Writes `answer`, and the hits to `hits`, which has room for `most` ids.
/// `free_row` is the row for a request without a row, or kNone if no row is free. `budget` is at
/// least 1 token. `spare` blocks stay free.
template <Team T>
BLOCKSTEP_HD inline u32 fit(T& team, const State& state, const BatchHeader& header, const Admission& admission,
                            const u32* keys, u32 free_row, u32 budget, u32 spare, u32* hits, u32 most, AdmissionAnswer& answer) {
  u32 num_hits = most == 0 ? 0 : lookup(team, state, KeyList{keys}, most, hits);
  const bool drops = admission.num_hits == kNone && (header.flags & kDropLastHit) != 0;
  if (num_hits != 0 && drops) num_hits -= 1;
  answer.num_hits = num_hits;
  if (admission.num_hits != kNone && num_hits != admission.num_hits) return kStopHits;

  const bool opens = admission.row == kNone;
  const bool fresh = admission.num_computed == 0;
  const u32 computed = computed_tokens(header.block_size, admission, num_hits);
  const bool loads = (admission.flags & kLoadsFirst) != 0;
  const u32 missing = admission.num_tokens - computed;
  const u32 padding = padding_of(header.padding, admission, missing);
  if (padding != 0 && (padding >= budget || u64{admission.num_tokens} + padding > header.model_limit)) return kStopBudget;
  u32 chunk = loads ? 0 : missing + padding;
  if (header.prefill_limit != 0) chunk = lesser(chunk, header.prefill_limit);
  if (chunk > budget) {
    if (!(header.flags & kChunkedPrefill)) return kStopBudget;
    chunk = budget;
  }
  const auto blocks_for = [&](u32 tokens) { return (tokens + header.block_size - 1) / header.block_size; };
  const bool ahead = header.flags & kAheadAlways ? !loads : !fresh;
  const u32 needed = lesser(computed + chunk + (ahead ? header.lookahead : 0), header.slot_limit);
  const u32 held = opens ? num_hits : state.rows[admission.row].num_blocks;
  const u32 total = greater(blocks_for(needed), held);
  const u32 reserve = header.flags & kReserveAll ? greater(blocks_for(admission.num_tokens), total) : total;
  const u64 beside = u64{total} + (loads ? header.kept_blocks : 0);
  // Free blocks that are hit leave the queue too.
  const u32 hit_free = num_hits == 0 ? 0 : count_free(team, state, hits, num_hits);
  if ((beside > reserve ? beside : reserve) - held + hit_free + spare > state.num_free) return kStopBlocks;
  const u32 row = opens ? free_row : admission.row;
  if (row == kNone) return kStopRows;

  answer.row = row;
  answer.num_tokens = chunk;
  answer.num_blocks = total;
  answer.num_new = total - held;
  return kNotStopped;
}

/// Carries out the result of fit(): Open of the row with its hits, Extend, and Publish of the
/// filled blocks. The hits are in `open_payload` behind its first word.
template <Team T>
BLOCKSTEP_HD inline void grant(T& team, State& state, const BatchHeader& header, const Admission& admission,
                               const u32* keys, u32* open_payload, const AdmissionAnswer& answer, Draft& draft) {
  const bool opens = admission.row == kNone;
  if (opens) {
    if (team.rank() == 0) open_payload[0] = answer.row;
    team.sync();
    carry_out(team, state, draft, Op::kOpen, answer.num_hits);
  }
  if (state.fault == kNoFault && answer.num_new != 0) {
    u32* pair = next_payload(state, draft, 2);
    if (!pair) return;
    if (team.rank() == 0) {  // only rank 0 of extend() reads pair 0
      pair[0] = answer.row;
      pair[1] = answer.num_new;
    }
    carry_out(team, state, draft, Op::kExtend, 1);
  }
  if (state.fault != kNoFault || (admission.flags & kLoadsFirst)) return;
  const u32 computed = computed_tokens(header.block_size, admission, answer.num_hits);
  const u32 full = lesser((computed + answer.num_tokens) / header.block_size, answer.num_blocks);
  const u32 first_key = opens ? 0 : admission.num_published;
  const u32 published = opens ? answer.num_hits : admission.num_published;
  const u32 publish_to = lesser(full, first_key + admission.num_keys);
  if (publish_to <= published) return;
  const u32* unpublished = keys + 4 * (published - first_key);
  publish_new(team, state, RowPublications{answer.row, published, unpublished}, publish_to - published, draft);
}

/// Admits a request or changes nothing. Returns kNotStopped, or why the admission does not fit. A
/// fault is in state.fault.
template <Team T>
BLOCKSTEP_HD inline u32 admit(T& team, State& state, const BatchHeader& header, const Admission& admission,
                              const u32* keys, u32 free_row, u32 budget, u32 spare, Draft& draft,
                              AdmissionAnswer& answer) {
  answer = {kNone, 0, 0, 0, 0, 0};
  const u32 most = keys_to_find(header, admission);
  u32* open_payload = next_payload(state, draft, most + 1);
  if (!open_payload) return kNotStopped;
  const u32 stop =
      fit(team, state, header, admission, keys, free_row, budget, spare, open_payload + 1, most, answer);
  if (stop != kNotStopped) return stop;
  answer.first_id = draft.num_ids;
  grant(team, state, header, admission, keys, open_payload, answer, draft);
  return kNotStopped;
}

}  // namespace blockstep
