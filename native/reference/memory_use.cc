// How a step uses the KV memory: it writes the entries that it computes, and reads back the entries
// that it needs.
#include <algorithm>

#include "reference.h"

namespace blockstep {

void ReferenceModel::write(const Tables& tables, Work& work) {
  if (work.skip) return;
  for (u32 g = 0; g < num_groups(); ++g) {
    if (has_states(g)) write_states(tables, work, g);
    else write_tokens(tables, work, g);
  }
}

/// Writes the entries of all tokens that this step computes. The slot mapping follows the plan. If
/// drafts were rejected after the plan was made, the positions begin earlier. Their slots then come
/// from the block table, and the last elements of the slot mapping are only checked.
void ReferenceModel::write_tokens(const Tables& tables, Work& work, u32 group) {
  const std::int32_t* blocks = row(tables, group, work.entry);
  const std::int64_t* mapping = lay_out_group(config_.tables, tables, group).slot_mapping + work.query;
  const u32 planned = work.first + work.shift;
  for (u32 p = work.first; p < work.end; ++p) {
    if (p < planned) write_entry(work, group, p, slot_in(blocks, group, p), kNone);
    else write_entry(work, group, p, mapping[p - planned], work.query + (p - planned));
  }
  for (u32 p = std::max(planned, work.end); p < work.planned_end; ++p) {
    check_slot(work, group, p, mapping[p - planned], slot_in(blocks, group, p));
  }
}

/// Checks the slots of all tokens, which follow the plan, and writes the states. With drafts, the
/// last state is known only after the drafts of the step are verified. answer() then writes the
/// states.
void ReferenceModel::write_states(const Tables& tables, Work& work, u32 group) {
  const std::int32_t* blocks = row(tables, group, work.entry);
  const std::int64_t* mapping = lay_out_group(config_.tables, tables, group).slot_mapping + work.query;
  const u32 planned = work.first + work.shift;
  for (u32 p = planned; p < work.planned_end; ++p) check_slot(work, group, p, mapping[p - planned], slot_in(blocks, group, p));
  if (work.end <= work.known) keep_states(tables, work, group, work.end);
}

/// Writes the state after the last token before `end`. If the group also keeps the state at the end
/// of every block, it writes those too. With drafts, the step may have passed the end of a block
/// whose place holds a state. That block gets its state too.
void ReferenceModel::keep_states(const Tables& tables, Work& work, u32 group, u32 end) {
  const std::int32_t* blocks = row(tables, group, work.entry);
  const u32 size = config_.tokens_per_block(group);
  const bool verified = work.end > work.known;
  for (u32 p = work.first; p < end; ++p) {
    const bool passes = (p + 1) % size == 0 && (config_.groups[group].every_end || (verified && blocks[p / size] != 0));
    if (passes || p + 1 == end) write_entry(work, group, p, slot_in(blocks, group, p), kNone);
  }
}

void ReferenceModel::check_slot(Work& work, u32 group, u32 position, std::int64_t slot, std::int64_t expected) {
  if (slot == expected) return;
  Finding finding{Mismatch::kSlot, work.entry, work.sequence->handle, position};
  finding.expected = expected;
  finding.found = slot;
  report_in(work, group, finding);
}

/// @param mapping index of the slot in the slot mapping; kNone: the slot comes from the block table
void ReferenceModel::write_entry(Work& work, u32 group, u32 position, std::int64_t slot, u32 mapping) {
  const Sequence& sequence = *work.sequence;
  const u32 size = config_.tokens_per_block(group);
  if (slot < size || static_cast<u64>(slot) >= u64{config_.num_blocks} * size) {  // includes the null block
    Finding finding{Mismatch::kSlot, work.entry, sequence.handle, position};
    finding.found = slot;
    report_in(work, group, finding);
    return;
  }
  const u32 block = static_cast<u32>(static_cast<u64>(slot) / size);
  const u32 offset = has_states(group) ? 0 : static_cast<u32>(static_cast<u64>(slot) % size);
  const Possession& possession = possessions_[block];
  if (possession.owner != sequence.handle && block != work.trespassed) {
    work.trespassed = block;
    Finding finding{Mismatch::kForeignWrite, work.entry, sequence.handle, position, block};
    finding.owner = possession.owner;
    finding.generation = possession.generation;
    report_in(work, group, finding);
  }
  const u32 count = has_states(group) ? config_.block_size : 1;  // a state fills a whole block
  memory_->place({work.entry, mapping, slot}, u64{block} * config_.block_size + offset, count,
                 {sequence.hash_of(position), sequence.handle, sequence.tokens[position], position, possession.generation, group});
}

/// Reports astray entries, because the tables must not change before the end of the step.
void ReferenceModel::report_astray() {
  const Span<const Astray> all = memory_->astray();
  for (u32 i = 0; i < all.size; ++i) {
    const Astray& astray = all.data[i];
    check_slot(work_[astray.entry], astray.group, astray.position, astray.found, astray.expected);
  }
}

/// Saves, in every group of states, the state after the token before the first computed token. The
/// state is in that token's place.
void ReferenceModel::save_states(const Tables& tables, Work& work) {
  work.saved = num_saved_;
  if (work.skip || work.first == 0) return;
  for (u32 g = 0; g < num_groups(); ++g) {
    if (!has_states(g)) continue;
    const u32 place = (work.first - 1) / config_.tokens_per_block(g);
    const std::int32_t named = row(tables, g, work.entry)[place];
    if (!is_block(named)) continue;
    memory_->save(g, work.entry, place, static_cast<u32>(named));
    num_saved_ += 1;
  }
}

/// Reads the states that were saved.
void ReferenceModel::read_states(const Tables& tables, Work& work) {
  if (work.skip || work.first == 0) return;
  const u32 position = work.first - 1;
  u32 next = work.saved;
  for (u32 g = 0; g < num_groups(); ++g) {
    if (!has_states(g)) continue;
    const std::int32_t named = row(tables, g, work.entry)[position / config_.tokens_per_block(g)];
    bool good = true;
    const KvEntry* entry = open_block(work, g, named, position, good) ? memory_->saved(next++) : nullptr;
    const bool right = entry != nullptr && holds(work, g, static_cast<u32>(named), position, *entry);
    if (good && !right) judge_entry(work, g, position, static_cast<u32>(named), *entry);
    // A model with a wrong state continues the text differently.
    if (!right) work.bent = entry == nullptr ? 0 : static_cast<std::int32_t>(entry->hash & 0x3fffffff);
  }
}

/// Reads back into text_, through the block tables, the part of the sequence that the step needs.
/// All later code uses text_. Positions that the first group does not read come from the copy.
/// Positions that another group reads replace it if they differ.
void ReferenceModel::read(const Tables& tables, Work& work) {
  if (work.skip) return;
  Sequence& sequence = *work.sequence;
  if (text_.size() < work.end) text_.resize(std::max<std::size_t>(work.end, 2 * text_.size()));
  const u32 unread = has_states(0) ? work.end : first_read(work, 0);
  std::copy_n(sequence.tokens.begin(), unread, text_.begin());
  sequence.blocks.resize(num_groups());
  for (u32 g = 0; g < num_groups(); ++g) {
    if (!has_states(g)) read_group(tables, work, g);
  }
  if (work.bent >= 0) text_[std::min(work.end, work.known) - 1] = work.bent;
}

/// The first position that a token of the step needs in a group without states.
u32 ReferenceModel::first_read(const Work& work, u32 group) const {
  const ReferenceGroup& of = config_.groups[group];
  if (of.reads == Reads::kWindow) return work.first + 1 > of.span ? work.first + 1 - of.span : 0;
  return of.reads == Reads::kChunk ? work.first - work.first % of.span : 0;
}

/// Reads a group's positions from the first needed position on, and reports the first wrong entry
/// of each block.
void ReferenceModel::read_group(const Tables& tables, Work& work, u32 group) {
  Sequence& sequence = *work.sequence;
  const std::int32_t* blocks = row(tables, group, work.entry);
  std::vector<std::int32_t>& before = sequence.blocks[group];
  const u32 size = config_.tokens_per_block(group);
  const u32 num_blocks = (work.end + size - 1) / size;
  for (u32 p = first_read(work, group); p < work.end;) {
    const u32 i = p / size;
    const u32 to = std::min((i + 1) * size, work.end);
    if (i < before.size() && before[i] != blocks[i]) {
      Finding finding{Mismatch::kMoved, work.entry, sequence.handle, std::int64_t{i} * size, blocks[i]};
      finding.expected = before[i];
      finding.found = blocks[i];
      report_in(work, group, finding);
    }
    bool good = true;
    if (!open_block(work, group, blocks[i], p, good)) {
      std::fill(text_.begin() + p, text_.begin() + to, 0);
      p = to;
      continue;
    }
    const auto block = static_cast<u32>(blocks[i]);
    const KvEntry* entries = memory_->read(group, work.entry, i, block);
    for (; p < to; ++p) {
      const KvEntry& entry = entries[p - i * size];
      if (group == 0 || entry.token != sequence.tokens[p]) text_[p] = entry.token;
      if (holds(work, group, block, p, entry) || !good) [[likely]] continue;
      good = false;
      judge_entry(work, group, p, block, entry);
    }
    if (p == work.end && config_.groups[group].zeroed && good) find_state(work, group, block, entries, p, (i + 1) * size);
  }
  if (!work.faulty) before.assign(blocks, blocks + num_blocks);
}

/// Reports the first state behind the last token of a text, in the same block. Attention reads
/// whole blocks and gives the entries behind the text no weight. But the bytes of a state may be
/// NaNs, and then the sum is NaN too.
void ReferenceModel::find_state(Work& work, u32 group, u32 block, const KvEntry* entries, u32 from, u32 to) {
  const u32 size = config_.tokens_per_block(group);
  for (u32 p = from; p < to; ++p) {
    const KvEntry& entry = entries[p % size];
    if (entry.owner == 0 || entry.group >= num_groups() || !has_states(entry.group)) continue;
    Finding finding{Mismatch::kUnzeroed, work.entry, work.sequence->handle, p, block};
    finding.found_position = entry.position;
    finding.owner = entry.owner;
    finding.generation = possessions_[block].generation;
    finding.found_generation = entry.generation;
    report_in(work, group, finding);
    return;
  }
}

/// Whether the block that a row names exists, for reading from position `from` on. Reports it if
/// not, and then sets `good` to false.
bool ReferenceModel::open_block(Work& work, u32 group, std::int32_t named, u32 from, bool& good) {
  if (!is_block(named)) {
    const bool is_null = named == 0 && config_.tables.num_groups > 0;
    report_in(work, group, {is_null ? Mismatch::kNullRead : Mismatch::kBlock, work.entry, work.sequence->handle, from, named});
    good = false;
    return false;
  }
  const auto block = static_cast<u32>(named);
  if (blocks()->arrivals(block) != possessions_[block].arrivals) {
    report_in(work, group, {Mismatch::kUnexpectedLoad, work.entry, work.sequence->handle, from, named});
    good = false;
  }
  return true;
}

/// Whether an entry is the correct entry of the request at a position.
bool ReferenceModel::holds(const Work& work, u32 group, u32 block, u32 position, const KvEntry& entry) {
  const Sequence& sequence = *work.sequence;
  // The hash alone would suffice, except for memory that was copied only partly.
  return entry.hash == sequence.hash_of(position) && entry.token == sequence.tokens[position] &&
         entry.position == position && entry.group == group && entry.generation == possessions_[block].generation &&
         (entry.owner == sequence.handle || position < sequence.adopted);
}

/// Reports how an entry differs from the copy.
void ReferenceModel::judge_entry(Work& work, u32 group, u32 position, u32 block, const KvEntry& entry) {
  const Sequence& sequence = *work.sequence;
  const u32 generation = possessions_[block].generation;
  Mismatch kind = Mismatch::kWrong;
  if (entry.owner == 0) kind = Mismatch::kUnwritten;
  else if (entry.generation != generation) kind = Mismatch::kStale;
  else if (entry.owner != sequence.handle) kind = Mismatch::kForeign;
  Finding finding{kind, work.entry, sequence.handle, position, block};
  finding.expected = sequence.tokens[position];
  finding.generation = generation;
  if (entry.owner != 0) {
    finding.found = entry.token;
    finding.found_position = entry.position;
    finding.owner = entry.owner;
    finding.found_generation = entry.generation;
  }
  report_in(work, group, finding);
}

/// Reports a finding at a position of a group's row.
void ReferenceModel::report_in(Work& work, u32 group, Finding finding) {
  if (config_.tables.num_groups > 0) {
    finding.group = group;
    finding.place = finding.position / config_.tokens_per_block(group);
  }
  report(work, finding);
}

}  // namespace blockstep
