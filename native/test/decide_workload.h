// Random scheduling steps, each twice: asked of a HostCore operation by operation, as the scheduler's passes do, and
// written as one batch. The first is what the second has to come to, word for word.
#pragma once

#include <set>

#include "../host/batch_writer.h"
#include "request_mix.h"

namespace blockstep::test {

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

class DecideWorkload : public RequestMix {
 public:
  using RequestMix::RequestMix;

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

 private:
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

  // ---- The step as a batch.

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

  BatchWriter writer_;
  std::vector<Planned> planned_;
  u32 budget_ = 0;
  u32 scheduled_ = 0;
};

}  // namespace blockstep::test
