#include "core.h"

#include <string>

#include "../core/audit/digest.h"
#include "../core/base/block_hash.h"
#include "requests/check_frame.h"

namespace blockstep {
namespace {

std::unique_ptr<Mirror> make_mirror(const Config& pool, std::unique_ptr<Device> device, u32 max_logs) {
  if (!device) return nullptr;
  const MirrorLimits limits{max_logs, slot_words(pool), pool.num_blocks, kMaxWaitingWords};
  return std::make_unique<Mirror>(std::move(device), limits);
}

constexpr std::int32_t kMaxTokenId = 0x7ffffffe;

/// Throws an error that names the first invalid token id, which must exist.
[[noreturn]] void refuse_tokens(Span<const std::int32_t> tokens) {
  u32 at = 0;
  while (tokens.data[at] >= 0 && tokens.data[at] <= kMaxTokenId) ++at;
  throw Error{kBadArg, "a token id must be from 0 to " + std::to_string(kMaxTokenId) + ", got " +
                           std::to_string(tokens.data[at]) + " at index " + std::to_string(at)};
}

}  // namespace

HostCore::HostCore(const HostConfig& config, const Exchange& exchange) : HostCore(config, exchange, nullptr, 0) {}

HostCore::HostCore(const HostConfig& config, const Exchange& exchange, std::unique_ptr<Device> device, u32 max_logs)
    : config_(config),
      exchange_(exchange),
      condition_(exchange_),
      mirrored_(condition_, make_mirror(config.pool, std::move(device), max_logs)),
      facts_(config_, exchange_, condition_, mirrored_),
      pool_(facts_),
      slots_(config_, exchange_, facts_),
      running_(config_, facts_, slots_),
      admissions_(config_, exchange_, facts_, slots_),
      groups_(config_.groups.empty() ? nullptr : std::make_unique<Groups>(config_, exchange_, facts_, slots_)),
      pending_(config_, exchange_, condition_, facts_, slots_, admissions_, groups_.get()),
      host_gather_(config_, facts_, slots_),
      device_gather_(config_, condition_, mirrored_, facts_, slots_),
      queries_(config_, facts_, slots_) {
  if (mirrored_.mirror() && config.authority == Authority::kDevice) {
    decisions_.emplace(config_, exchange_, condition_, facts_, slots_, running_, *mirrored_.mirror());
  }
  facts_.publish_counts();
}

void HostCore::require_host_decides(const char* call) const {
  if (!decisions_) [[likely]] return;
  throw Error{kAuthority, std::string(call) + " needs a core whose host decides, and the GPU of this core decides"};
}

void HostCore::require_device_decides(const char* call) const {
  if (decisions_) return;
  throw Error{kAuthority, std::string(call) + " needs a core whose GPU decides, and the host of this core decides"};
}

u32 HostCore::run(u32 frame_index, u32 from, u32 to) {
  condition_.require_sound();
  require_host_decides("run");
  check_range(from, to);
  const std::int32_t steady = exchange_.control(kNumSteady);
  if (steady == 0) return run_step(frame_index, from, to);
  // Each further step takes the tokens that the sampled area has, as JavaScript would write them
  // there between two calls.
  std::int32_t repeats = exchange_.control(kNumRepeats);
  exchange_.control(kNumRepeats) = 0;
  u32 done = run_step(frame_index, from, to);
  for (; repeats > 0 && done == to - from; --repeats) {
    exchange_.control(kSampledFrame) = static_cast<std::int32_t>(frame_index);
    exchange_.control(kNumSampled) = steady;
    exchange_.control(kNumSteady) = steady;
    done = run_step(frame_index, from, to);
  }
  return done;
}

/// Gives the entries of one step their blocks, after the pending operations.
u32 HostCore::run_step(u32 frame_index, u32 from, u32 to) {
  pending_.drain();
  if (exchange_.control(kNumSteady) != 0) pending_.compute_last(frame_index, from, to);
  const Frame frame = exchange_.frame(frame_index);
  check_frame(frame, from, to, slots_.table());
  return groups_ ? groups_->running.run(frame, from, to) : running_.run(frame, from, to);
}

u64 HostCore::add(Span<const std::int32_t> tokens, std::u16string_view adapter, std::u16string_view salt) {
  condition_.require_sound();
  if (tokens.size > config_.max_model_len) {
    throw Error{kBadArg, "a prompt must have at most " + std::to_string(config_.max_model_len) + " tokens, got " +
                             std::to_string(tokens.size)};
  }
  // Negative ids have their sign bit set, and so has the successor of 2^31 - 1, which is also
  // invalid.
  u32 bad = 0;
  for (u32 i = 0; i < tokens.size; ++i) {
    const auto token = static_cast<u32>(tokens.data[i]);
    bad |= token | (token + 1);
  }
  if (bad >> 31) refuse_tokens(tokens);
  pending_.drain();
  const Key root = chain_root(config_.seed, adapter.data(), static_cast<u32>(adapter.size() * sizeof(char16_t)),
                              salt.data(), static_cast<u32>(salt.size() * sizeof(char16_t)));
  RequestTable& table = slots_.table();
  return table.handle(table.open(tokens.data, tokens.size, root));
}

u32 HostCore::match(u32 slot, u32 max_blocks) {
  pending_.drain();
  return admissions_.match(slot, max_blocks);
}

std::int32_t HostCore::admit(u32 slot, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens,
                             u32 spare_blocks, u32 reserved_blocks) {
  condition_.require_sound();
  require_host_decides("admit");
  pending_.drain();
  return admissions_.admit(slot, hit_blocks, reserve_tokens, need_tokens, publish_tokens, spare_blocks, reserved_blocks);
}

u32 HostCore::common_prefix(u32 slot) {
  pending_.drain();
  return slots_.shared_prefix(slots_.open_slot(slot));
}

void HostCore::flush() {
  condition_.begin_change();
  pending_.drain();
}

void HostCore::submit_decision(u32 frame, u32 from, u32 to, Span<const std::int32_t> request) {
  require_device_decides("submitDecision");
  condition_.begin_change();
  check_range(from, to);
  decisions_->check_request(request);
  pending_.drain();
  check_frame(exchange_.frame(frame), from, to, slots_.table());
  decisions_->submit(frame, from, to, request);
}

bool HostCore::poll_decision(Span<std::int32_t> answer) {
  condition_.require_sound();
  require_device_decides("pollDecision");
  return decisions_->poll(answer);
}

void HostCore::bind_tables(u32 frame, void* base, u32 max_tokens) {
  condition_.require_sound();
  host_gather_.bind(frame, base, max_tokens);
}

void HostCore::gather(u32 frame, u32 num_entries) {
  pending_.drain();
  host_gather_.gather(frame, exchange_.frame(frame), num_entries);
}

const blockstep_tables& HostCore::make_device_tables(u32 max_tokens) {
  condition_.require_sound();
  return device_gather_.make(max_tokens);
}

void HostCore::gather_on_device(u32 frame, u32 num_entries, std::optional<u64> stream) {
  condition_.begin_change();
  pending_.drain();
  device_gather_.gather(exchange_.frame(frame), num_entries, stream);
}

void HostCore::read_device_table(Table which, void* out) {
  condition_.require_sound();
  device_gather_.read(which, out);
}

void HostCore::pin(Span<const std::int32_t> ids) {
  condition_.begin_change();
  pool_.check(ids);
  pending_.drain();
  pool_.pin(ids);
}

void HostCore::unpin(Span<const std::int32_t> ids) {
  condition_.begin_change();
  pool_.check(ids);
  pending_.drain();
  pool_.unpin(ids);
}

void HostCore::evict(Span<const std::int32_t> ids) {
  condition_.begin_change();
  pool_.check(ids);
  pending_.drain();
  pool_.evict(ids);
}

bool HostCore::reset() {
  condition_.begin_change();
  pending_.drain();
  return pool_.reset();
}

u64 HostCore::handle(u32 slot) {
  pending_.drain();
  return queries_.handle(slot);
}

u32 HostCore::num_tokens(u32 slot) {
  pending_.drain();
  return queries_.num_tokens(slot);
}

u32 HostCore::read_tokens(u32 slot, u32 from, Span<std::int32_t> out) {
  pending_.drain();
  return queries_.read_tokens(slot, from, out);
}

u32 HostCore::read_blocks(u32 slot, u32 from, Span<std::int32_t> out, u32 group) {
  pending_.drain();
  return queries_.read_blocks(slot, from, out, group);
}

u32 HostCore::read_free_queue(Span<std::int32_t> out) {
  pending_.drain();
  return queries_.read_free_queue(out);
}

u32 HostCore::read_published(Span<std::int32_t> out) {
  pending_.drain();
  return queries_.read_published(out);
}

u32 HostCore::ref_count(u32 id) {
  pending_.drain();
  return facts_.state().blocks[id].ref;
}

std::optional<Key> HostCore::published_key(u32 id) {
  pending_.drain();
  const Block& block = facts_.state().blocks[id];
  if (!(block.flags & kPublished)) return std::nullopt;
  return block.key;
}

u32 HostCore::block_generation(u32 id) {
  pending_.drain();
  return facts_.state().blocks[id].generation;
}

Key HostCore::block_hash(u32 slot, u32 index) {
  pending_.drain();
  return queries_.block_hash(slot, index);
}

void HostCore::verify() {
  pending_.drain();
  if (const char* broken = queries_.broken_invariant()) condition_.poison(broken);
  if (!groups_) return;
  if (const char* broken = groups_->rows.verify()) condition_.poison(broken);
}

u64 HostCore::digest() {
  pending_.drain();
  return blockstep::digest(facts_.state());
}

u64 HostCore::rolling_digest() {
  pending_.drain();
  return facts_.state().rolling_digest;
}

void HostCore::record(bool on) {
  condition_.begin_change();
  pending_.drain();
  facts_.record(on);
}

const std::vector<u32>& HostCore::recorded() {
  pending_.drain();
  return facts_.recorded();
}

const std::vector<u32>& HostCore::kv_events() {
  pending_.drain();
  return facts_.events().waiting();
}

void HostCore::forget_kv_events() {
  facts_.events().forget();
  facts_.publish_counts();
}

void HostCore::submit(std::optional<u64> stream) {
  condition_.begin_change();
  mirrored_.admit(stream);
  pending_.drain();
  mirrored_.submit(stream, device_gather_.joins());
}

bool HostCore::poll() {
  condition_.require_sound();
  return mirrored_.poll();
}

void HostCore::start_mirror_digest() {
  condition_.begin_change();
  pending_.drain();
  mirrored_.start_digest(facts_.state());
}

std::optional<u64> HostCore::mirror_digest() {
  condition_.require_sound();
  return mirrored_.digest(facts_.state());
}

}  // namespace blockstep
