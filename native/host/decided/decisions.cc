#include "decisions.h"

#include <algorithm>
#include <string>

namespace blockstep {
namespace {

/// Maximum of the slots and padding of an admission, so that no sum of tokens overflows.
constexpr u32 kMostExtraTokens = 1u << 16;

RequestAdmission admission_at(Span<const std::int32_t> request, u32 index) {
  RequestAdmission admission;
  std::copy_n(request.data + kRequestHead + std::size_t{index} * kRequestAdmission, kRequestAdmission,
              reinterpret_cast<std::int32_t*>(&admission));
  return admission;
}

}  // namespace

Decisions::Decisions(const HostConfig& config, const Exchange& exchange, Condition& condition, FactLog& facts,
                     Slots& slots, Running& running, Mirror& mirror)
    : config_(config),
      exchange_(exchange),
      condition_(condition),
      facts_(facts),
      state_(facts.state()),
      slots_(slots),
      table_(slots.table()),
      running_(running),
      decider_(mirror, config.pool) {}

void Decisions::submit(u32 frame_index, u32 from, u32 to, Span<const std::int32_t> request) {
  const Frame frame = exchange_.frame(frame_index);
  const auto slot_limit = static_cast<u32>(request.data[kAskSlotLimit]);
  forget_admissions();  // the rest of a call that threw
  running_.plan(frame, from, to, slot_limit, ~u64{0});
  read_admissions(frame, from, to, request);
  const bool whole = write_running() && write_admissions();
  const auto word = [&](RequestWord at) { return static_cast<u32>(request.data[at]); };
  const BatchLimits limits = {word(kAskFlags),        word(kAskTokens),  word(kAskRequests), config_.block_size,
                              word(kAskPrefillLimit), config_.lookahead, slot_limit, word(kAskDraftSlots),
                              word(kAskPadding), config_.max_model_len, word(kAskSpareBlocks), word(kAskKeptBlocks)};
  asked_ = {frame_index, from, to, limits.padding, whole};
  condition_.ask_mirror([&] { decider_.give(batch_, limits); });
  condition_.set_deciding(true);
}

void Decisions::forget_admissions() {
  for (const Asked& asked : admissions_) table_[asked.slot].mark = 0;
  admissions_.clear();
}

void Decisions::check_request(Span<const std::int32_t> request) const {
  const auto refuse = [](const char* what, const std::string& expected, std::int64_t value) {
    throw Error{kBadArg, std::string(what) + " must be " + expected + ", got " + std::to_string(value)};
  };
  if (request.size < kRequestHead) refuse("request", "at least " + std::to_string(kRequestHead) + " words long", request.size);
  const std::int32_t* head = request.data;
  if (head[kAskTokens] < 0) refuse("tokenBudget", "at least 0", head[kAskTokens]);
  if (head[kAskRequests] < 0) refuse("requestBudget", "at least 0", head[kAskRequests]);
  if (head[kAskPrefillLimit] < 0) refuse("prefillLimit", "at least 0", head[kAskPrefillLimit]);
  constexpr std::int32_t kFlags = kChunkedPrefill | kReserveAll | kDropLastHit | kAheadAlways | kOthersRun;
  if (head[kAskFlags] & ~kFlags) refuse("flags", "of the bits 1, 2, 4, 8 and 16", head[kAskFlags]);
  const auto up_to = [&](const char* what, RequestWord word, u32 most) {
    if (head[word] < 0 || static_cast<u32>(head[word]) > most) refuse(what, "from 0 to " + std::to_string(most), head[word]);
  };
  up_to("draftSlots", kAskDraftSlots, kMostExtraTokens);
  up_to("padding", kAskPadding, kMostExtraTokens);
  up_to("spareBlocks", kAskSpareBlocks, config_.pool.num_blocks);
  up_to("keptBlocks", kAskKeptBlocks, config_.pool.num_blocks);
  const std::int32_t limit = head[kAskSlotLimit];
  if (limit < 1 || static_cast<u32>(limit) > config_.max_model_len) {
    refuse("slotLimit", "from 1 to maxModelLen (" + std::to_string(config_.max_model_len) + ")", limit);
  }
  const std::int32_t room = static_cast<std::int32_t>((request.size - kRequestHead) / kRequestAdmission);
  const std::int32_t count = head[kAskAdmissions];
  const std::string there = "from 0 to the " + std::to_string(room) + " that are there";
  if (count < 0 || count > room) refuse("numAdmissions", there, count);
}

/// Reads and checks the admissions of a request. Changes only marks.
void Decisions::read_admissions(const Frame& frame, u32 from, u32 to, Span<const std::int32_t> request) {
  const auto slot_limit = static_cast<u32>(request.data[kAskSlotLimit]);
  for (u32 i = 0; i < static_cast<u32>(request.data[kAskAdmissions]); ++i) {
    const RequestAdmission asked = admission_at(request, i);
    const std::string where = " in admission " + std::to_string(i);
    if (asked.slot < 0 || !table_.is_open(static_cast<u32>(asked.slot))) {
      throw Error{kBadSlot, "slot " + std::to_string(asked.slot) + where + " is not open"};
    }
    const auto index = static_cast<u32>(asked.slot);
    Slot& slot = table_[index];
    const std::int32_t* const end = frame.slots + to;
    const bool runs = slot.row != kNone && std::find(frame.slots + from, end, asked.slot) != end;
    if (slot.mark || runs) throw Error{kBadArg, "slot " + std::to_string(index) + where + " is asked for twice"};
    if (slot.num_tokens > slot_limit) {
      throw Error{kBadArg, "slot " + std::to_string(index) + where + " has " + std::to_string(slot.num_tokens) +
                               " tokens, which is above slotLimit (" + std::to_string(slot_limit) + ")"};
    }
    const u32 num_hits = asked.num_hits < 0 ? kNone : static_cast<u32>(asked.num_hits);
    const Admission admission = {slot.num_tokens, static_cast<u32>(asked.num_computed), slot.row, slot.num_published, 0,
                                 num_hits, static_cast<u32>(asked.num_external), static_cast<u32>(asked.flags)};
    const bool in_range = asked.num_computed >= 0 && asked.num_external >= 0 && asked.num_hits >= -1 &&
                          (asked.flags & ~std::int32_t{kLoadsFirst | kPads}) == 0;
    const bool holds_hits = slot.row != kNone && num_hits != kNone && num_hits != 0;
    if (!in_range || holds_hits || !makes_sense(config_.block_size, admission)) {
      throw Error{kBadArg, "numComputedTokens, numExternalTokens, numHits and flags" + where + ", of " +
                               std::to_string(slot.num_tokens) + " tokens, make no sense: " +
                               std::to_string(asked.num_computed) + ", " + std::to_string(asked.num_external) + ", " +
                               std::to_string(asked.num_hits) + " and " + std::to_string(asked.flags)};
    }
    admissions_.push_back({index, admission});
    slot.mark = 1;
  }
}

/// Writes the running entries that Running::plan() found into the batch. Returns false if the batch
/// is full.
bool Decisions::write_running() {
  batch_.clear();
  for (const RunningWork& work : running_.work()) {
    Slot& slot = table_[work.slot];
    const u32 fills = work.publish_to - slot.num_published;
    const u64 words = kWordsOf<RunningEntry> + u64{kPublishWords} * fills;
    if (batch_.size() + words > decider_.room().batch_words) return false;
    if (fills != 0) table_.extend_hashes(slot, work.publish_to);
    batch_.run(slot.row, work.take);
    for (u32 i = slot.num_published; i < work.publish_to; ++i) batch_.publication(slot.row, i, slot.hashes[i + 1]);
  }
  return true;
}

/// Writes the admissions into the batch, each with a free row if it needs one. Returns false if the
/// batch is full.
bool Decisions::write_admissions() {
  u32 next_row = 0;
  for (Asked& asked : admissions_) {
    Slot& slot = table_[asked.slot];
    const u32 full = config_.caching ? table_.full_blocks(slot) : 0;
    const u32 known = std::min(slot.num_published, full);
    asked.admission.num_keys = full - known;
    const u64 words = kWordsOf<Admission> + u64{4} * asked.admission.num_keys + 1;
    if (batch_.size() + words > decider_.room().batch_words) return false;
    if (full != 0) table_.extend_hashes(slot, full);
    batch_.admission(asked.admission, config_.caching ? slot.hashes + 1 + known : nullptr);
    if (slot.row != kNone || next_row == kNone) continue;
    const u32 row = slots_.free_rows().lowest_from(next_row);
    if (row != kNone) batch_.free_row(row);
    next_row = row == kNone ? kNone : row + 1;
  }
  return true;
}

}  // namespace blockstep
