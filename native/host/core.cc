#include "core.h"

#include <algorithm>

#include "../core/base/block_hash.h"
#include "../core/audit/digest.h"
#include "../core/audit/verify.h"

namespace blockstep {

HostCore::HostCore(const HostConfig& config, const Exchange& exchange) : HostCore(config, exchange, nullptr, 0) {}

HostCore::HostCore(const HostConfig& config, const Exchange& exchange, std::unique_ptr<Device> device, u32 max_logs)
    : config_(config),
      exchange_(exchange),
      state_memory_(config.pool),
      state_(state_memory_.state),
      ids_memory_(u64{config.pool.num_blocks} * sizeof(u32)),
      table_(config.block_size, config.caching, config.seed),
      free_rows_(config.pool.num_rows),
      tables_(config.num_frames) {
  if (device) {
    const MirrorLimits limits{max_logs, slot_words(config.pool), config.pool.num_blocks, kMaxWaitingWords};
    mirror_ = std::make_unique<Mirror>(std::move(device), limits);
    if (config.authority == Authority::kDevice) decider_.emplace(*mirror_, config.pool);
  }
  match_.ids.resize(config.pool.max_blocks_per_row);
  work_.reserve(config.max_entries);
  publish_counts();
}

void HostCore::require_sound() const {
  if (!poisoned_.empty()) throw Error{poison_code_, poisoned_};
}

void HostCore::require_host_decides(const char* call) const {
  if (!decider_) [[likely]] return;
  throw Error{kAuthority, std::string(call) + " is for a core that decides by itself: here the GPU decides"};
}

/// Called first by whatever changes the state, or asks for it as it will be: a decision of the device comes before that.
void HostCore::begin_change() const {
  require_sound();
  if (deciding_) throw Error{kDecisionPending, "a decision of the GPU is under way: poll until it is there"};
}

/// From now on every operation throws this: what the state says can no longer be trusted.
void HostCore::poison(std::string what, const char* code) {
  poisoned_ = std::move(what);
  poison_code_ = code;
  set_deciding(false);
  throw Error{code, poisoned_};
}

/// Starts a log. What an operation that threw has left of its own is forgotten.
void HostCore::begin_log() {
  log_.clear();
  claimed_.clear();
}

/// Applies the log that was built, and writes it down when recording. Nothing may fail here any more: a fault means
/// that a check before was wrong.
void HostCore::commit() {
  if (log_.empty()) return;
  write_down(log_.words(), log_.size());
  SoloTeam solo;
  Results results{static_cast<u32*>(ids_memory_.base()), config_.pool.num_blocks, 0, 0, 0};
  apply(solo, state_, log_.words(), log_.size(), results);
  if (results.fault != kNoFault) poison(std::string("the block manager refused a command: ") + describe(results.fault));
  if (mirror_) [[unlikely]] mirror_log(results.num_ids);
  begin_log();
}

/// Keeps a log that is about to be applied, when recording.
void HostCore::write_down(const u32* log, u32 words) {
  if (!recording_ || words == 0) return;
  try {
    recorded_.push_back(words);
    recorded_.insert(recorded_.end(), log, log + words);
  } catch (const std::bad_alloc&) {
    poison("out of memory while recording the log");
  }
}

/// Shows TypeScript the counts that it reads without a call.
void HostCore::publish_counts() {
  exchange_.control(kFreeBlocks) = static_cast<std::int32_t>(state_.num_free);
  exchange_.control(kPublishedBlocks) = static_cast<std::int32_t>(state_.num_published);
  exchange_.control(kRowsInUse) = static_cast<std::int32_t>(state_.rows_in_use);
  exchange_.control(kEvictionsLow) = static_cast<std::int32_t>(state_.evictions);
  exchange_.control(kEvictionsHigh) = static_cast<std::int32_t>(state_.evictions >> 32);
}

Slot& HostCore::open_slot(u32 slot) {
  if (!table_.is_open(slot)) throw Error{kBadSlot, "slot " + std::to_string(slot) + " is not open"};
  return table_[slot];
}

/// Writes down what the slot holds now, and the thresholds that follow from it. kNone as the row: nothing.
void HostCore::set_row(Slot& slot, u32 row, u32 num_blocks, u32 num_published) {
  const auto tokens = [&](u32 blocks) {
    return static_cast<u32>(std::min(u64{blocks} * config_.block_size, u64{kNone}));
  };
  slot.row = row;
  slot.num_blocks = num_blocks;
  slot.num_published = num_published;
  slot.room = tokens(num_blocks);
  slot.publish_at = row == kNone || !config_.caching ? kNone : tokens(num_published + 1);
}

/// Is this block of a row, which its holder counts as unpublished, really so? A block that two rows share can have been
/// evicted for one of them and published again for the other.
bool HostCore::needs_publication(u32 id) {
  const Block& block = state_.blocks[id];
  if (block.flags & kPublished) return false;
  if (block.ref == 1) return true;
  if (std::find(claimed_.begin(), claimed_.end(), id) != claimed_.end()) return false;
  claimed_.push_back(id);
  return true;
}

/// Logs the publication of blocks [from, to) of the slot's row. The row has `have` blocks now; those behind it are
/// being taken by the same log, so they are fresh.
void HostCore::log_publications(Slot& slot, u32 row, u32 have, u32 from, u32 to) {
  table_.extend_hashes(slot, to);
  for (u32 i = from; i < to; ++i) {
    if (i < have && !needs_publication(blocks_of(state_, row)[i])) continue;
    log_.publish(row, i, slot.hashes[i + 1]);
  }
}

/// Leading blocks of the slot that every row in use holds. As in vLLM this goes by the reference counts.
u32 HostCore::shared_prefix(const Slot& slot) const {
  if (!config_.caching || slot.row == kNone) return 0;
  const u32* ids = blocks_of(state_, slot.row);
  u32 shared = 0;
  while (shared < slot.num_blocks && state_.blocks[ids[shared]].ref == state_.rows_in_use) shared += 1;
  return shared;
}

namespace {

constexpr std::int32_t kMaxTokenId = 0x7ffffffe;

/// Names the first id that is none; there is one.
[[noreturn]] void refuse_tokens(Span<const std::int32_t> tokens) {
  u32 at = 0;
  while (tokens.data[at] >= 0 && tokens.data[at] <= kMaxTokenId) ++at;
  throw Error{kBadArg, "a token id must be from 0 to " + std::to_string(kMaxTokenId) + ", got " +
                           std::to_string(tokens.data[at]) + " at index " + std::to_string(at)};
}

}  // namespace

u64 HostCore::add(Span<const std::int32_t> tokens, std::u16string_view adapter, std::u16string_view salt) {
  require_sound();
  if (tokens.size == 0 || tokens.size > config_.max_model_len) {
    throw Error{kBadArg, "a prompt must have 1 to " + std::to_string(config_.max_model_len) + " tokens, got " +
                             std::to_string(tokens.size)};
  }
  // Negative ids have their sign bit set, and so has the successor of 2^31 - 1, which is no token id either.
  u32 bad = 0;
  for (u32 i = 0; i < tokens.size; ++i) {
    const auto token = static_cast<u32>(tokens.data[i]);
    bad |= token | (token + 1);
  }
  if (bad >> 31) refuse_tokens(tokens);
  drain();
  const Key root = chain_root(config_.seed, adapter.data(), static_cast<u32>(adapter.size() * sizeof(char16_t)),
                              salt.data(), static_cast<u32>(salt.size() * sizeof(char16_t)));
  return table_.handle(table_.open(tokens.data, tokens.size, root));
}

u32 HostCore::common_prefix(u32 slot) {
  drain();
  return shared_prefix(open_slot(slot));
}

void HostCore::check_ids(Span<const std::int32_t> ids) const {
  for (u32 i = 0; i < ids.size; ++i) {
    if (ids.data[i] >= 1 && static_cast<u32>(ids.data[i]) < config_.pool.num_blocks) continue;
    throw Error{kBadArg, "a block id must be from 1 to " + std::to_string(config_.pool.num_blocks - 1) + ", got " +
                             std::to_string(ids.data[i]) + " at index " + std::to_string(i)};
  }
}

void HostCore::commit_ids(Op op, Span<const std::int32_t> ids) {
  begin_log();
  for (u32 i = 0; i < ids.size; ++i) log_.list(op, static_cast<u32>(ids.data[i]));
  commit();
  publish_counts();
}

void HostCore::pin(Span<const std::int32_t> ids) {
  begin_change();
  check_ids(ids);
  drain();
  for (u32 i = 0; i < ids.size; ++i) {  // far from where a 32-bit count would wrap
    if (state_.blocks[ids.data[i]].ref >= kMaxTokens - ids.size) throw Error{kLimit, "too many pins of one block"};
  }
  commit_ids(Op::kPin, ids);
}

void HostCore::unpin(Span<const std::int32_t> ids) {
  begin_change();
  check_ids(ids);
  drain();
  std::vector<std::int32_t> sorted(ids.data, ids.data + ids.size);
  std::sort(sorted.begin(), sorted.end());
  for (auto first = sorted.begin(); first != sorted.end();) {
    const auto last = std::upper_bound(first, sorted.end(), *first);
    const u32 pins = state_.blocks[*first].pins;
    if (last - first > static_cast<std::ptrdiff_t>(pins)) {
      throw Error{kNotPinned, "block " + std::to_string(*first) + " is pinned " + std::to_string(pins) +
                                  " times, not " + std::to_string(last - first)};
    }
    first = last;
  }
  commit_ids(Op::kUnpin, ids);
}

void HostCore::evict(Span<const std::int32_t> ids) {
  begin_change();
  check_ids(ids);
  drain();
  commit_ids(Op::kEvict, ids);
}

bool HostCore::reset() {
  begin_change();
  drain();
  if (state_.num_free != config_.pool.num_blocks - 1) return false;
  begin_log();
  log_.reset();
  commit();
  publish_counts();
  return true;
}

void HostCore::record(bool on) {
  begin_change();
  drain();
  recording_ = on;
}

const std::vector<u32>& HostCore::recorded() {
  drain();
  return recorded_;
}

}  // namespace blockstep
