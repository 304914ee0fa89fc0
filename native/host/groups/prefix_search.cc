#include "prefix_search.h"

#include <algorithm>

namespace blockstep {

PrefixSearch::PrefixSearch(const HostConfig& config, const FactLog& facts, RequestTable& table, const GroupRows& rows)
    : config_(config), state_(facts.state()), table_(table), rows_(rows), hits_(config.groups.size()) {
  for (u32 g = 0; g < config.groups.size(); ++g) {
    const GroupConfig& group = config.groups[g];
    if (group.spec >= specs_.size()) specs_.resize(group.spec + 1);
    specs_[group.spec].groups.push_back(g);
    specs_[group.spec].eagle |= group.eagle;
  }
  const auto full = [&](const Spec& spec) { return config_.groups[spec.groups[0]].full(); };
  std::stable_partition(specs_.begin(), specs_.end(), full);
}

/// Whether all groups of a spec have a block for this place. The blocks are then in looked_.
bool PrefixSearch::look(const Spec& spec, const Slot& slot, u32 place) {
  const u32 hash = (place + 1) * (size_of(spec) / config_.block_size);
  if (hash > slot.num_hashes) return false;
  looked_.clear();
  for (u32 g : spec.groups) {
    const u32 id = blockstep::find(state_, slot.hashes[hash], g);
    if (id == kNone) return false;
    looked_.push_back(id);
  }
  return true;
}

void PrefixSearch::resize(const Spec& spec, u32 places) {
  for (u32 g : spec.groups) hits_[g].resize(places, kNullBlock);
}

/// Whether the end of `places` places is a block boundary in all groups.
bool PrefixSearch::is_aligned(const Spec& spec, u32 places) const {
  return u64{places} * size_of(spec) % rows_.alignment() == 0;
}

/// Appends the leading hits from place `from` on. Returns the place behind them.
u32 PrefixSearch::run_from(const Spec& spec, const Slot& slot, u32 from, u32 places) {
  u32 run = from;
  if (spec.groups.size() == 1) {  // the usual case: many places, so without look()
    const u32 g = spec.groups[0];
    const u32 hashes = size_of(spec) / config_.block_size;
    const u32 end = std::min(places, slot.num_hashes / hashes);
    std::vector<u32>& hits = hits_[g];
    hits.resize(std::max(end, from));
    const auto key_of = [&](u32 place) { return slot.hashes[std::size_t{place + 1} * hashes]; };
    ChainFetcher fetcher;
    const bool ahead = fetches_ahead(SoloTeam{}, state_);
    for (; run < end; ++run) {
      if (ahead) {
        fetcher.fetch_ahead(state_, run - from, end - from, [&](u32 at) { return bucket_of(state_, key_of(from + at), g); });
      }
      const u32 id = blockstep::find(state_, key_of(run), g);
      if (id == kNone) break;
      hits[run] = id;
    }
    hits.resize(run);
    return run;
  }
  for (; run < places && look(spec, slot, run); ++run) {
    for (std::size_t i = 0; i < spec.groups.size(); ++i) hits_[spec.groups[i]].push_back(looked_[i]);
  }
  return run;
}

u32 PrefixSearch::search_full(const Spec& spec, const Slot& slot, u32 places, bool eagle) {
  u32 run = run_from(spec, slot, 0, places);
  if (eagle && run > 0) run -= 1;
  while (!is_aligned(spec, run)) run -= 1;
  return run;
}

u32 PrefixSearch::search_sliding(const Spec& spec, const Slot& slot, u32 places, bool eagle) {
  const GroupConfig& group = config_.groups[spec.groups[0]];
  const u32 needed = (group.window - 1 + group.block_size - 1) / group.block_size + eagle;
  resize(spec, places);
  u32 run = 0;
  for (u32 i = places; i-- > 0;) {
    if (!look(spec, slot, i)) {
      run = 0;
      continue;
    }
    // With a drafter, the block of place i is behind the hit.
    if (run == 0 && !is_aligned(spec, eagle ? i : i + 1)) continue;
    for (std::size_t k = 0; k < spec.groups.size(); ++k) hits_[spec.groups[k]][i] = looked_[k];
    run += 1;
    if (run < needed) continue;
    u32 length = i + run;
    if (eagle) {
      length -= 1;
      while (!is_aligned(spec, length)) length -= 1;
    }
    return length;
  }
  // A run from the first place counts at any length.
  u32 length = run;
  while (!is_aligned(spec, length)) length -= 1;
  if (eagle && length > 0) {
    length -= 1;
    while (!is_aligned(spec, length)) length -= 1;
  }
  return length;
}

u32 PrefixSearch::search_chunked(const Spec& spec, const Slot& slot, u32 tokens) {
  const GroupConfig& group = config_.groups[spec.groups[0]];
  for (;;) {
    // No token needs the places before the chunk of the last token.
    const u32 first = tokens / group.chunk * group.chunk / group.block_size;
    resize(spec, first);
    const u32 length = run_from(spec, slot, first, tokens / group.block_size);
    // If the first block of the chunk is missing and the chunk begins inside of it, the hit ends in
    // the previous chunk. It then needs the blocks of that chunk, which vLLM does not check.
    const u32 end = length * group.block_size;
    if (length > first || end % group.chunk == 0 || !(config_.group_fixes & kChunkHits)) return length;
    for (u32 g : spec.groups) hits_[g].clear();
    tokens = end;
  }
}

u32 PrefixSearch::search_mamba(const Spec& spec, const Slot& slot, u32 places) {
  for (u32 i = places; i-- > 0;) {
    if (!is_aligned(spec, i + 1) || !look(spec, slot, i)) continue;
    resize(spec, i);
    for (std::size_t k = 0; k < spec.groups.size(); ++k) hits_[spec.groups[k]].push_back(looked_[k]);
    return i + 1;
  }
  return 0;
}

/// Looks up the groups of one spec. Returns the number of places of the hit.
u32 PrefixSearch::search(const Spec& spec, const Slot& slot, u32 tokens, bool eagle) {
  for (u32 g : spec.groups) hits_[g].clear();
  const GroupConfig& group = config_.groups[spec.groups[0]];
  const u32 places = tokens / group.block_size;
  u32 length;
  switch (group.type) {
    case GroupType::kFull: length = search_full(spec, slot, places, eagle); break;
    case GroupType::kSliding: length = search_sliding(spec, slot, places, eagle); break;
    case GroupType::kChunked: length = search_chunked(spec, slot, tokens); break;
    default: length = search_mamba(spec, slot, places); break;
  }
  resize(spec, length);
  return length;
}

u32 PrefixSearch::find(Slot& slot, u32 most) {
  for (std::vector<u32>& hits : hits_) hits.clear();
  longest_ = 0;
  if (!config_.caching || most == 0) return 0;
  table_.extend_hashes(slot, table_.full_blocks(slot));
  if (config_.groups.size() == 1) {
    return search(specs_[0], slot, most, specs_[0].eagle) * size_of(specs_[0]);
  }
  u32 hit = most;
  u64 verified = 0;  // specs of drafters whose last block was dropped at the current length
  u64 looked_up = 0;
  for (;;) {
    u32 tokens = hit;
    for (std::size_t s = 0; s < specs_.size(); ++s) {
      const Spec& spec = specs_[s];
      const GroupConfig& group = config_.groups[spec.groups[0]];
      const u64 bit = u64{1} << s;
      if (group.full() && (looked_up & bit)) {
        tokens = tokens / group.block_size * group.block_size;
        continue;
      }
      // A state of linear attention is a hit itself. No block of it is dropped, so the lookup may
      // not extend further (vLLM's does).
      const bool eagle = spec.eagle && !group.mamba() && !(verified & bit);
      const u32 limit = eagle ? std::min(tokens + group.block_size, most) : tokens;
      const u32 found = search(spec, slot, limit, eagle) * group.block_size;
      looked_up |= bit;
      if (eagle) verified |= bit;
      else if (found < tokens) verified = 0;
      tokens = found;
      longest_ = std::max(longest_, found);
    }
    if (tokens >= hit) break;
    hit = tokens;
    if (specs_.size() == 2 && config_.groups[specs_[0].groups[0]].full()) break;
  }
  const bool all = config_.group_fixes & kCutAllFull;
  for (std::size_t s = 0; s < (all ? specs_.size() : 1); ++s) {
    if (config_.groups[specs_[s].groups[0]].full()) resize(specs_[s], hit / size_of(specs_[s]));
  }
  return hit;
}

}  // namespace blockstep
