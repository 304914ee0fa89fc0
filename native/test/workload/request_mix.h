// Requests that come, run, wait and end at random, in a HostCore and in its pending operations.
#pragma once

#include <deque>

#include "../../host/core.h"
#include "../support/support.h"

namespace blockstep::test {

/// Rules of admissions, like in BatchHeader.
struct MixRules {
  u32 draft_slots = 0;
  u32 padding = 0;
  u32 spare_blocks = 0;
  u32 kept_blocks = 0;
};

struct MixShape {
  Config pool;
  u32 block_size;
  u32 max_running;
  u32 token_budget;
  u32 prefill_limit;
  u32 lookahead;
  u32 flags;
  bool caching;
  u32 num_docs;  // number of documents with which requests begin
  MixRules rules{};
};

/// A small scheduler's requests. happen() makes the changes between the steps.
class RequestMix {
 public:
  /// With a device, the device decides.
  RequestMix(const MixShape& shape, u64 seed, std::unique_ptr<Device> device = nullptr)
      : random(seed),
        shape_(shape),
        by_device_(device != nullptr),
        max_tokens_(std::min(shape.pool.max_blocks_per_row, shape.pool.num_blocks - 1) * shape.block_size),
        words_(Exchange::words_needed(kPending, 1, kEntries)),
        exchange_(words_.data(), kPending, kEntries),
        core_(HostConfig{shape.pool, shape.block_size, kEntries, 1, kPending, shape.lookahead, max_tokens_,
                         shape.caching, Key{seed, ~seed}, by_device_ ? Authority::kDevice : Authority::kHost},
              exchange_, std::move(device), kMaxLogs) {
    exchange_.control(kHeadSlot) = -1;
    core_.record(true);
  }

  virtual ~RequestMix() = default;

  Random random;

 protected:
  struct Request {
    u32 slot;
    u32 doc;
    u32 num_tokens;
    u32 last_token;  // number of tokens at which it ends
    u32 computed = 0;
    u32 row = kNone;
    u32 num_blocks = 0;
    u32 num_published = 0;
  };

  u32 blocks_for(u32 tokens) const { return (tokens + shape_.block_size - 1) / shape_.block_size; }

  /// The core's recorded logs since the last call, as one log.
  std::vector<u32> drain_log() {
    const std::vector<u32>& recorded = core_.recorded();
    std::vector<u32> log;
    for (std::size_t at = 0; at < recorded.size(); at += recorded[at] + 1) {
      const auto from = recorded.begin() + static_cast<std::ptrdiff_t>(at + 1);
      log.insert(log.end(), from, from + recorded[at]);
    }
    core_.forget_log();
    for (u32 at = 0; at < log.size(); at += 1 + payload_words(log[at])) num_commands_ += 1;
    return log;
  }

  /// Makes the changes between two steps.
  void happen() {
    // No new requests for a while: all waiting requests get admitted.
    if (random.one_in(40)) quiet_ = random.below(12);
    if (quiet_ != 0) quiet_ -= 1;
    else for (u32 n = random.below(4); n != 0 && waiting_.size() < 12; --n) add();
    for (std::size_t i = running_.size(); i-- > 0;) go_on(i);
    if (random.one_in(6)) abort_any();
    if (random.one_in(6)) pin_some();
    if (random.one_in(3)) unpin_some();
    if (random.one_in(4)) evict_some();
    if (random.one_in(5) && !running_.empty()) preempt(random.below(running_.size()));
  }

  void preempt(std::size_t i) {
    Request request = running_[i];
    const u32 computed = request.computed;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    release(request);
    // Tokens from another source than the local cache.
    if (random.one_in(6)) request.computed = std::min(computed, request.num_tokens - 1);
    waiting_.push_front(request);
  }

  MixShape shape_;
  const bool by_device_;
  u32 max_tokens_;

 private:
  static constexpr u32 kPending = 4096;
  static constexpr u32 kEntries = 512;
  static constexpr u32 kMaxLogs = 2;
  std::vector<std::int32_t> words_;

 protected:
  Exchange exchange_;
  HostCore core_;
  std::vector<Request> running_;
  std::deque<Request> waiting_;
  u64 num_commands_ = 0;

 private:
  void push(PendingOp op, u32 slot, u32 argument) {
    std::int32_t& count = exchange_.control(kNumPending);
    if (count == static_cast<std::int32_t>(kPending)) core_.flush();
    exchange_.pending()[2 * count] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange_.pending()[2 * count + 1] = static_cast<std::int32_t>(argument);
    count += 1;
  }

  /// Token i of a request: the document's, except for a few of its own.
  std::int32_t token(const Request& request, u32 i) {
    return static_cast<std::int32_t>(random.one_in(60) ? 1000 + random.below(3) : request.doc * 10 + i % 10);
  }

  void add() {
    Request request{};
    request.doc = random.below(shape_.num_docs);
    request.num_tokens = 1 + random.below(random.one_in(3) ? max_tokens_ : max_tokens_ / 2);
    request.last_token = std::min(max_tokens_, request.num_tokens + random.below(4 * shape_.block_size));
    std::vector<std::int32_t> prompt;
    for (u32 i = 0; i < request.num_tokens; ++i) prompt.push_back(token(request, i));
    request.row = kNone;
    request.slot = static_cast<u32>(core_.add({prompt.data(), request.num_tokens}, u"", u"") % kSlotLimit);
    waiting_.push_back(request);
  }

  void append(Request& request) {
    push(PendingOp::kAppend, request.slot, static_cast<u32>(token(request, request.num_tokens)));
    request.num_tokens += 1;
  }

  /// A running request that computed all its tokens gets another token, ends, or waits with its
  /// blocks.
  void go_on(std::size_t i) {
    Request& request = running_[i];
    if (request.computed < request.num_tokens) return;
    if (random.one_in(20) || request.num_tokens >= request.last_token) {
      push(PendingOp::kClose, request.slot, 0);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    append(request);
    if (random.one_in(8)) publish_settled(request);
    if (!random.one_in(16)) return;
    for (u32 n = random.below(2 * shape_.block_size); n != 0 && request.num_tokens < max_tokens_; --n) append(request);
    // Rejected or dropped drafts already have blocks.
    if (random.one_in(2)) request.computed = 1 + random.below(request.computed);
    waiting_.insert(waiting_.begin() + random.below(waiting_.size() + 1), request);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void publish_settled(Request& request) {
    push(PendingOp::kPublish, request.slot, request.computed);
    if (!shape_.caching) return;
    const u32 to = std::min(request.computed / shape_.block_size, request.num_blocks);
    request.num_published = std::max(request.num_published, to);
  }

  void release(Request& request) {
    push(PendingOp::kRelease, request.slot, 0);
    request.row = kNone;
    request.num_blocks = request.num_published = request.computed = 0;
  }

  void abort_any() {
    if (waiting_.empty()) return;
    const u32 i = random.below(waiting_.size());
    push(PendingOp::kClose, waiting_[i].slot, 0);
    waiting_.erase(waiting_.begin() + i);
  }

  void pin_some() {
    for (u32 n = random.below(4); n != 0; --n) {
      const auto id = static_cast<std::int32_t>(1 + random.below(shape_.pool.num_blocks - 1));
      core_.pin({&id, 1});
      pinned_.push_back(id);
    }
  }

  void unpin_some() {
    for (u32 n = random.below(6); n != 0 && !pinned_.empty(); --n) {
      std::swap(pinned_[random.below(pinned_.size())], pinned_.back());
      core_.unpin({&pinned_.back(), 1});
      pinned_.pop_back();
    }
  }

  /// Requests with blocks, mostly shared blocks, lose keys, and publish them again when they run
  /// next.
  void evict_some() {
    const u32 doc = random.below(shape_.num_docs);
    const u32 from = random.below(3);
    const auto evict = [&](Request& request) {
      if (request.doc != doc || random.one_in(4)) return;
      push(PendingOp::kEvict, request.slot, from);
      if (from < request.num_blocks) request.num_published = std::min(request.num_published, from);
    };
    for (Request& request : running_) evict(request);
    for (Request& request : waiting_) evict(request);
  }

  std::vector<std::int32_t> pinned_;
  u32 quiet_ = 0;
};

}  // namespace blockstep::test
