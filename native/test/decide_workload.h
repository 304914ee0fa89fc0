// Random scheduling steps, each twice: asked of a HostCore operation by operation, as the scheduler's passes do, and
// written as one batch. The first is what the second has to come to, word for word.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "../host/batch_writer.h"
#include "host_core.h"
#include "support.h"

namespace blockstep::test {

struct DecideShape {
  Config pool;
  u32 block_size;
  u32 max_running;
  u32 token_budget;
  u32 prefill_limit;
  u32 lookahead;
  u32 flags;
  bool caching;
  u32 num_docs;  // requests begin with one of so many documents
};

/// One batch, and what a decision of it has to be.
struct DecideStep {
  std::vector<u32> batch;
  u32 max_log;
  u32 num_admissions;
  std::vector<u32> decision;
  u64 digest;  // of the state after it
  std::vector<u32> queue;
};

/// Which paths a run has been through; a run that misses one proves nothing about it.
struct DecideCoverage {
  u64 stops[6] = {};  // by Stop
  u64 run = 0, partly_run = 0, hits = 0, dropped_hits = 0, free_hits = 0, partial_chunks = 0, limited_chunks = 0;
  u64 held_rows = 0, longer_rows = 0, external = 0, published = 0, contested = 0, known = 0, evictions = 0, facts = 0;
};

class DecideWorkload {
 public:
  DecideWorkload(const DecideShape& shape, u64 seed)
      : random(seed),
        shape_(shape),
        max_tokens_(std::min(shape.pool.max_blocks_per_row, shape.pool.num_blocks - 1) * shape.block_size),
        words_(Exchange::words_needed(kPending, 1, kEntries)),
        exchange_(words_.data(), kPending, kEntries),
        core_(HostConfig{shape.pool, shape.block_size, kEntries, 1, kPending, shape.lookahead, max_tokens_,
                         shape.caching, Key{seed, ~seed}},
              exchange_) {
    exchange_.control(kHeadSlot) = -1;
    core_.record(true);
  }

  /// What happens between two steps, and then a step.
  DecideStep next(DecideCoverage& coverage) {
    happen();
    core_.flush();
    writer_.clear();
    const std::vector<u32> facts = take_log();
    writer_.facts(facts.data(), static_cast<u32>(facts.size()));
    coverage.facts += facts.size();

    const u32 num_entries = plan_running(coverage);
    const u32 num_asked = plan_admissions();
    const BatchLimits limits = {shape_.flags,      budget_ - scheduled_,  room_for_requests(), shape_.block_size,
                                shape_.prefill_limit, shape_.lookahead, max_tokens_};
    DecideStep step;
    step.batch = writer_.words(limits);
    step.max_log = static_cast<u32>(writer_.max_log());
    step.num_admissions = num_asked;

    const u32 done = core_.run(0, 0, num_entries);
    std::vector<u32> ids;
    for (u32 e = 0; e < done; ++e) take_run(planned_[e], e, ids);
    DecisionHeader header{};
    std::vector<AdmissionAnswer> answers;
    header.stop = kStopRunning;
    if (done == num_entries) header.stop = admit_all(num_asked, limits, answers, ids, coverage);
    const std::vector<u32> log = take_log();
    coverage.stops[header.stop] += 1;
    coverage.run += done;
    coverage.partly_run += header.stop == kStopRunning && done != 0;
    count_publications(log, coverage);
    coverage.evictions = static_cast<u32>(exchange_.control(kEvictionsLow));

    header.version = kDecisionVersion;
    header.num_run = done;
    header.num_answers = static_cast<u32>(answers.size());
    header.num_admitted = header.num_answers - (answers.empty() || answers.back().row != kNone ? 0 : 1);
    header.num_ids = static_cast<u32>(ids.size());
    header.log_words = static_cast<u32>(log.size());
    header.num_free = static_cast<u32>(exchange_.control(kFreeBlocks));
    header.num_published = static_cast<u32>(exchange_.control(kPublishedBlocks));
    header.rows_in_use = static_cast<u32>(exchange_.control(kRowsInUse));
    set_wide(header.rolling_digest, core_.rolling_digest());
    set_wide(header.num_commands, num_commands_);
    write_decision(step.decision, header, answers, ids, log);
    step.digest = core_.digest();
    step.queue.resize(header.num_free);
    std::vector<std::int32_t> queue(header.num_free + 1);
    core_.read_free_queue({queue.data(), header.num_free});
    std::copy_n(queue.begin(), header.num_free, step.queue.begin());
    core_.verify();
    if (header.stop == kStopRunning) preempt(running_.size() - 1);
    return step;
  }

  Random random;

 private:
  static constexpr u32 kPending = 4096;
  static constexpr u32 kEntries = 64;

  struct Request {
    u32 slot;
    u32 doc;
    u32 num_tokens;
    u32 last_token;  // it ends with so many
    u32 computed = 0;
    u32 row = kNone;
    u32 num_blocks = 0;
    u32 num_published = 0;
  };
  struct Planned {
    u64 request;  // index in running_
    u32 scheduled;
    u32 num_new;
    u32 publish_to;
  };

  static void set_wide(u32* words, u64 value) {
    words[0] = static_cast<u32>(value);
    words[1] = static_cast<u32>(value >> 32);
  }

  template <class Record>
  static void append_record(std::vector<u32>& words, const Record& record) {
    const u32* from = reinterpret_cast<const u32*>(&record);
    words.insert(words.end(), from, from + kWordsOf<Record>);
  }

  static void write_decision(std::vector<u32>& words, DecisionHeader header,
                             const std::vector<AdmissionAnswer>& answers, const std::vector<u32>& ids,
                             const std::vector<u32>& log) {
    header.words = static_cast<u32>(kWordsOf<DecisionHeader> + answers.size() * kWordsOf<AdmissionAnswer> +
                                    ids.size() + log.size());
    append_record(words, header);
    for (const AdmissionAnswer& answer : answers) append_record(words, answer);
    words.insert(words.end(), ids.begin(), ids.end());
    words.insert(words.end(), log.begin(), log.end());
  }

  /// What the core wrote down since the last time, as one log.
  std::vector<u32> take_log() {
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

  // ---- What happens between two steps.

  void push(PendingOp op, u32 slot, u32 argument) {
    std::int32_t& count = exchange_.control(kNumPending);
    if (count == static_cast<std::int32_t>(kPending)) core_.flush();
    exchange_.pending()[2 * count] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange_.pending()[2 * count + 1] = static_cast<std::int32_t>(argument);
    count += 1;
  }

  void happen() {
    if (random.one_in(40)) quiet_ = random.below(12);  // nothing new comes for a while: all there is gets admitted
    if (quiet_ != 0) quiet_ -= 1;
    else for (u32 n = random.below(4); n != 0 && waiting_.size() < 12; --n) add();
    for (std::size_t i = running_.size(); i-- > 0;) go_on(i);
    if (random.one_in(6)) abort_any();
    if (random.one_in(6)) pin_some();
    if (random.one_in(3)) unpin_some();
    if (random.one_in(4)) evict_some();
    if (random.one_in(5) && !running_.empty()) preempt(random.below(running_.size()));
  }

  /// Token i of a request: its document's for a while, then its own.
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

  /// A running request that computed all its tokens gets another, or ends, or waits with what it holds.
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
    // What was drafted and rejected, or dropped, has blocks already.
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

  void preempt(std::size_t i) {
    Request request = running_[i];
    const u32 computed = request.computed;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    release(request);
    // Tokens that come from somewhere else than the local cache.
    if (random.one_in(6)) request.computed = std::min(computed, request.num_tokens - 1);
    waiting_.push_front(request);
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

  /// Requests that hold blocks, mostly such that share them, lose keys, and publish them again when they run next.
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

  // ---- The step as a batch.

  u32 blocks_for(u32 tokens) const { return (tokens + shape_.block_size - 1) / shape_.block_size; }
  u32 room_for_requests() const { return shape_.max_running - static_cast<u32>(running_.size()); }
  u32 limit_chunk(u32 tokens) const { return shape_.prefill_limit ? std::min(tokens, shape_.prefill_limit) : tokens; }

  /// The frame and the running entries. Returns their number.
  u32 plan_running(DecideCoverage& coverage) {
    const Frame frame = exchange_.frame(0);
    std::set<std::int32_t> published;
    std::vector<std::int32_t> ids(shape_.pool.num_blocks);
    for (u32 n = core_.read_published({ids.data(), shape_.pool.num_blocks}), i = 0; i < n; ++i) published.insert(ids[i]);
    std::set<std::int32_t> claimed;
    planned_.clear();
    budget_ = random.one_in(3) ? 1 + random.below(shape_.token_budget) : shape_.token_budget;
    scheduled_ = 0;
    for (std::size_t i = 0; i < running_.size() && scheduled_ < budget_; ++i) {
      const Request& request = running_[i];
      if (random.one_in(12)) continue;  // not every running request has something to do
      const u32 chunk = std::min(limit_chunk(request.num_tokens - request.computed), budget_ - scheduled_);
      const u32 after = request.computed + chunk;
      const u32 total = std::max(blocks_for(std::min(after + shape_.lookahead, max_tokens_)), request.num_blocks);
      const u32 full = shape_.caching ? std::min(after / shape_.block_size, total) : 0;
      const u32 publish_to = std::max(request.num_published, full);
      const auto e = static_cast<u32>(planned_.size());
      slots_of(frame)[e] = static_cast<std::int32_t>(request.slot);
      scheduled_of(frame)[e] = static_cast<std::int32_t>(chunk);
      computed_of(frame)[e] = static_cast<std::int32_t>(request.computed);
      writer_.run(request.row, total - request.num_blocks);
      core_.read_blocks(request.slot, 0, {ids.data(), shape_.pool.num_blocks});
      for (u32 b = request.num_published; b < publish_to; ++b) {
        writer_.publication(request.row, b, core_.block_hash(request.slot, b));
        if (b >= request.num_blocks) continue;
        coverage.known += published.count(ids[b]);
        coverage.contested += !published.count(ids[b]) && !claimed.insert(ids[b]).second;
      }
      planned_.push_back({i, chunk, total - request.num_blocks, publish_to});
      scheduled_ += chunk;
    }
    return static_cast<u32>(planned_.size());
  }

  static std::int32_t* slots_of(const Frame& frame) { return const_cast<std::int32_t*>(frame.slots); }
  static std::int32_t* scheduled_of(const Frame& frame) { return const_cast<std::int32_t*>(frame.scheduled); }
  static std::int32_t* computed_of(const Frame& frame) { return const_cast<std::int32_t*>(frame.computed); }

  /// Some of the waiting requests, from the first on, and the free rows. Returns how many.
  u32 plan_admissions() {
    std::set<u32> used;
    for (const Request& request : running_) used.insert(request.row);
    for (const Request& request : waiting_) used.insert(request.row);
    for (u32 row = 0; row < shape_.pool.num_rows; ++row) {
      if (!used.count(row)) writer_.free_row(row);
    }
    const u32 count = random.one_in(4) ? random.below(waiting_.size() + 1) : static_cast<u32>(waiting_.size());
    std::vector<Key> keys;
    for (u32 i = 0; i < count; ++i) {
      const Request& request = waiting_[i];
      keys.clear();
      const u32 to = shape_.caching ? request.num_tokens / shape_.block_size : 0;
      for (u32 b = request.num_published; b < to; ++b) keys.push_back(core_.block_hash(request.slot, b));
      writer_.admission({request.num_tokens, request.computed, request.row, request.num_published,
                         static_cast<u32>(keys.size())},
                        keys.data());
    }
    return count;
  }

  // ---- The step, operation by operation.

  void last_blocks(const Request& request, u32 count, std::vector<u32>& ids) {
    std::vector<std::int32_t> list(request.num_blocks + 1);
    const u32 n = core_.read_blocks(request.slot, 0, {list.data(), request.num_blocks});
    EXPECT(n == request.num_blocks, "%u blocks instead of %u", n, request.num_blocks);
    for (u32 i = n - count; i < n; ++i) ids.push_back(static_cast<u32>(list[i]));
  }

  /// What the core did for an entry, as it says itself.
  void take_run(const Planned& planned, u32 entry, std::vector<u32>& ids) {
    Request& request = running_[planned.request];
    const Frame frame = exchange_.frame(0);
    request.num_blocks += planned.num_new;
    request.num_published = planned.publish_to;
    request.computed += planned.scheduled;
    EXPECT(frame.num_blocks[entry] == static_cast<std::int32_t>(request.num_blocks), "entry %u", entry);
    last_blocks(request, planned.num_new, ids);
  }

  /// As the scheduler's waiting pass admits.
  u32 admit_all(u32 asked, const BatchLimits& limits, std::vector<AdmissionAnswer>& answers, std::vector<u32>& ids,
                DecideCoverage& coverage) {
    u32 budget = limits.token_budget;
    for (u32 i = 0; i < asked; ++i) {
      if (budget == 0) return kStopBudget;
      if (running_.size() == shape_.max_running) return kStopRequests;
      Request request = waiting_.front();
      AdmissionAnswer answer = {kNone, 0, 0, 0, 0, 0};
      const u32 stop = admit_one(request, budget, answer, coverage);
      if (stop == kNotStopped) answer.first_id = static_cast<u32>(ids.size());
      answers.push_back(answer);
      if (stop != kNotStopped) return stop;
      last_blocks(request, answer.num_new, ids);
      budget -= answer.num_tokens;
      waiting_.pop_front();
      running_.push_back(request);
    }
    return kNotStopped;
  }

  u32 admit_one(Request& request, u32 budget, AdmissionAnswer& answer, DecideCoverage& coverage) {
    const bool fresh = request.computed == 0;
    const bool looks = fresh && request.row == kNone;
    u32 hits = looks ? core_.match(request.slot, (request.num_tokens - 1) / shape_.block_size) : 0;
    coverage.free_hits += looks && exchange_.control(kHitFree) != 0;
    const bool drops = hits != 0 && (shape_.flags & kDropLastHit);
    hits -= drops;
    answer.num_hits = hits;
    const u32 computed = fresh ? hits * shape_.block_size : request.computed;
    u32 chunk = limit_chunk(request.num_tokens - computed);
    coverage.limited_chunks += chunk < request.num_tokens - computed;
    if (chunk > budget) {
      if (!(shape_.flags & kChunkedPrefill)) return kStopBudget;
      chunk = budget;
      coverage.partial_chunks += 1;
    }
    const u32 needed = std::min(computed + chunk + (fresh ? 0 : shape_.lookahead), max_tokens_);
    const u32 reserve = shape_.flags & kReserveAll ? request.num_tokens : 0;
    const u32 publish = shape_.caching ? computed + chunk : 0;
    const u32 held = request.row == kNone ? hits : request.num_blocks;
    const std::int32_t row = core_.admit(request.slot, hits, reserve, needed, publish);
    if (row == kNotEnoughBlocks) return kStopBlocks;
    if (row == kNoFreeRow) return kStopRows;
    coverage.hits += hits;
    coverage.dropped_hits += drops;
    coverage.held_rows += request.row != kNone;
    coverage.longer_rows += blocks_for(needed) < held;
    coverage.external += request.row == kNone && !fresh;
    const u32 before = request.row == kNone ? hits : request.num_published;
    request.row = static_cast<u32>(row);
    request.num_blocks = std::max(blocks_for(needed), held);
    request.num_published = std::max(before, std::min(publish / shape_.block_size, request.num_blocks));
    request.computed = computed + chunk;
    answer = {request.row, hits, chunk, request.num_blocks, request.num_blocks - held, 0};
    return kNotStopped;
  }

  static void count_publications(const std::vector<u32>& log, DecideCoverage& coverage) {
    for (u32 at = 0; at < log.size(); at += 1 + payload_words(log[at])) {
      if (op_of(log[at]) == Op::kPublish) coverage.published += count_of(log[at]);
    }
  }

  DecideShape shape_;
  u32 max_tokens_;
  std::vector<std::int32_t> words_;
  Exchange exchange_;
  HostCore core_;
  BatchWriter writer_;
  std::vector<Request> running_;
  std::deque<Request> waiting_;
  std::vector<Planned> planned_;
  std::vector<std::int32_t> pinned_;
  u32 budget_ = 0;
  u32 scheduled_ = 0;
  u32 quiet_ = 0;
  u64 num_commands_ = 0;
};

}  // namespace blockstep::test
