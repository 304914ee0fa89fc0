// Random scheduling steps over a HostCore, decided by the host, operation by operation like the
// scheduler's passes, or by the device in one request. Two mixes of one seed make the same requests
// while both decide the same.
#pragma once

#include <chrono>
#include <set>
#include <thread>

#include "outcome.h"
#include "request_mix.h"

namespace blockstep::test {

class SchedulingMix : public RequestMix {
 public:
  SchedulingMix(const MixShape& shape, u64 seed, DecideCoverage& coverage, std::unique_ptr<Device> device = nullptr)
      : RequestMix(shape, seed, std::move(device)), coverage_(coverage) {}

 protected:
  /// An entry of the frame: the tokens of a running request.
  struct Planned {
    u64 request;  // index in running_
    u32 scheduled;
    u32 num_new;
    u32 publish_to;
  };
  /// A connector's external tokens for a request, behind the cached blocks that it was told.
  struct Brought {
    u32 num_hits = kNone;
    u32 num_external = 0;
    u32 flags = 0;
  };

  /// Plans the request for this step: the frame and planned_, and a number of waiting requests,
  /// with brought_.
  void plan() {
    plan_running();
    plan_admissions();
    given_ = 0;
  }

  BatchLimits limits() const {
    const u32 room = shape_.max_running - static_cast<u32>(running_.size());
    const auto& [draft_slots, padding, spare_blocks, kept_blocks] = shape_.rules;
    const u32 flags = shape_.flags | (running_.empty() ? 0u : u32{kOthersRun});
    const u32 left = budget_ - scheduled_ - std::min(given_, budget_ - scheduled_);
    return {flags,       left,    room,        shape_.block_size, shape_.prefill_limit, shape_.lookahead, max_tokens_,
            draft_slots, padding, max_tokens_, spare_blocks,      kept_blocks};
  }

  /// Entries from `from` on, and `num_asked` admissions if all entries fit, like the scheduler's
  /// passes.
  Outcome ask_host(u32 from, u32 num_asked) {
    const auto to = static_cast<u32>(planned_.size());
    Outcome outcome;
    outcome.num_run = core_.run(0, from, to);
    outcome.stop = kStopRunning;
    if (from + outcome.num_run == to) outcome.stop = admit_all(num_asked, outcome.answers);
    return outcome;
  }

  /// The same by the device.
  Outcome ask_device(u32 from, u32 num_asked) {
    const auto to = static_cast<u32>(planned_.size());
    const BatchLimits all = limits();
    std::vector<std::int32_t> request(kRequestHead);
    const auto word = [](u32 value) { return static_cast<std::int32_t>(value); };
    request[kAskTokens] = word(all.token_budget);
    request[kAskRequests] = word(all.request_budget);
    request[kAskFlags] = word(all.flags);
    request[kAskPrefillLimit] = word(all.prefill_limit);
    request[kAskSlotLimit] = word(all.slot_limit);
    request[kAskDraftSlots] = word(all.draft_slots);
    request[kAskPadding] = word(all.padding);
    request[kAskSpareBlocks] = word(all.spare_blocks);
    request[kAskKeptBlocks] = word(all.kept_blocks);
    request[kAskAdmissions] = word(num_asked);
    for (u32 i = 0; i < num_asked; ++i) {
      const Brought& brought = brought_[i];
      request.insert(request.end(), {word(waiting_[i].slot), word(waiting_[i].computed), word(brought.num_external),
                                     word(brought.num_hits), word(brought.flags)});
    }
    core_.submit_decision(0, from, to, {request.data(), static_cast<u32>(request.size())});
    std::vector<std::int32_t> answer(kAnswerHead + std::size_t{kAnswerAdmission} * num_asked);
    wait_for("a decision", [&] { return core_.poll_decision({answer.data(), static_cast<u32>(answer.size())}); });
    Outcome outcome;
    outcome.num_run = static_cast<u32>(answer[kNumRun]);
    outcome.stop = static_cast<u32>(answer[kAnswerStop]);
    outcome.answers.resize(static_cast<u32>(answer[kNumAnswers]));
    std::copy_n(answer.data() + kAnswerHead, std::size_t{kAnswerAdmission} * outcome.answers.size(),
                reinterpret_cast<std::int32_t*>(outcome.answers.data()));
    EXPECT(static_cast<u32>(answer[kNumAdmitted]) == outcome.num_admitted(), "%d admitted", answer[kNumAdmitted]);
    return outcome;
  }

  template <class Ready>
  static void wait_for(const char* what, const Ready& ready) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    for (u32 polls = 0; !ready(); ++polls) {
      EXPECT(std::chrono::steady_clock::now() < deadline, "the device did not come to %s in two minutes", what);
      // A GPU is fast. A device of threads may need this processor.
      if (polls >= 200) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  /// Updates the requests with the decision.
  void take(u32 from, const Outcome& outcome) {
    const Frame frame = exchange_.frame(0);
    for (u32 e = from; e < from + outcome.num_run; ++e) {
      const Planned& planned = planned_[e];
      Request& request = running_[planned.request];
      request.num_blocks += planned.num_new;
      request.num_published = planned.publish_to;
      request.computed += planned.scheduled;
      EXPECT(frame.num_blocks[e] == static_cast<std::int32_t>(request.num_blocks), "entry %u", e);
      EXPECT(frame.new_blocks[e] == static_cast<std::int32_t>(planned.num_new), "entry %u", e);
    }
    for (u32 i = 0; i < outcome.num_admitted(); ++i) take_admitted(outcome.answers[i], brought_[i]);
    brought_.erase(brought_.begin(), brought_.begin() + outcome.num_admitted());
    coverage_.stops[outcome.stop] += 1;
    coverage_.run += outcome.num_run;
    coverage_.partly_run += outcome.stop == kStopRunning && outcome.num_run != 0;
  }

  DecideCoverage& coverage_;
  std::vector<Planned> planned_;
  std::vector<Brought> brought_;  // for the waiting requests of this step

 private:
  u32 limit_chunk(u32 tokens) const { return shape_.prefill_limit ? std::min(tokens, shape_.prefill_limit) : tokens; }

  void plan_running() {
    const Frame frame = exchange_.frame(0);
    planned_.clear();
    budget_ = random.one_in(3) ? 1 + random.below(shape_.token_budget) : shape_.token_budget;
    scheduled_ = 0;
    for (std::size_t i = 0; i < running_.size() && scheduled_ < budget_; ++i) {
      const Request& request = running_[i];
      if (random.one_in(12)) continue;  // not every running request has work
      const u32 chunk = std::min(limit_chunk(request.num_tokens - request.computed), budget_ - scheduled_);
      const u32 after = request.computed + chunk;
      const u32 total = std::max(blocks_for(std::min(after + shape_.lookahead, max_tokens_)), request.num_blocks);
      const u32 full = shape_.caching ? std::min(after / shape_.block_size, total) : 0;
      const auto e = planned_.size();
      const_cast<std::int32_t*>(frame.slots)[e] = static_cast<std::int32_t>(request.slot);
      const_cast<std::int32_t*>(frame.scheduled)[e] = static_cast<std::int32_t>(chunk);
      const_cast<std::int32_t*>(frame.computed)[e] = static_cast<std::int32_t>(request.computed);
      planned_.push_back({i, chunk, total - request.num_blocks, std::max(request.num_published, full)});
      scheduled_ += chunk;
    }
  }

  /// Plans some of the waiting requests, from the first on.
  void plan_admissions() {
    const u32 count = random.one_in(4) ? random.below(waiting_.size() + 1) : static_cast<u32>(waiting_.size());
    brought_.clear();
    for (u32 i = 0; i < count; ++i) {
      brought_.push_back(bring(waiting_[i]));
      if (shape_.rules.padding != 0 && brought_[i].flags == 0 && !random.one_in(3)) brought_[i].flags = kPads;
    }
  }

  /// Uses the currently cached blocks, which another admission may evict earlier.
  Brought bring(const Request& request) {
    Brought brought;
    if (request.computed != 0 || request.row != kNone || !random.one_in(3)) return brought;
    brought.num_hits = core_.match(request.slot, (request.num_tokens - 1) / shape_.block_size);
    if (random.one_in(4)) brought.num_hits = random.below(brought.num_hits + 1);
    const u32 left = request.num_tokens - brought.num_hits * shape_.block_size;
    if (left < 2 || random.one_in(3)) return brought;
    const bool loads = random.one_in(2);
    brought.num_external = 1 + random.below(loads ? left : left - 1);
    brought.flags = loads ? kLoadsFirst : 0u;
    return brought;
  }

  u32 admit_all(u32 asked, std::vector<AnswerAdmission>& answers) {
    const BatchLimits all = limits();
    u32 budget = all.token_budget;
    u32 started = 0;
    for (u32 i = 0; i < asked; ++i) {
      if (budget == 0) return kStopBudget;
      if (started == all.request_budget) return kStopRequests;
      AnswerAdmission answer = {-1, 0, 0, 0, 0, 0};
      const u32 spare = started != 0 || !running_.empty() ? all.spare_blocks : 0;
      const u32 stop = admit_one(waiting_[i], brought_[i], budget, spare, answer);
      answers.push_back(answer);
      if (stop != kNotStopped) return stop;
      const bool starts = (brought_[i].flags & kLoadsFirst) == 0;
      budget -= std::min(budget, cost_of(answer, starts));
      started += starts;
    }
    return kNotStopped;
  }

  /// Tokens of the budget that an admission costs.
  u32 cost_of(const AnswerAdmission& answer, bool starts) const {
    return static_cast<u32>(answer.num_tokens) + (starts ? shape_.rules.draft_slots : 0);
  }

  /// Admits like the scheduler's waiting pass.
  u32 admit_one(const Request& request, const Brought& brought, u32 budget, u32 spare, AnswerAdmission& answer) {
    const bool fresh = request.computed == 0;
    const bool looks = fresh && request.row == kNone;
    const u32 most = std::min((request.num_tokens - 1) / shape_.block_size, brought.num_hits);
    u32 hits = looks ? core_.match(request.slot, most) : 0;
    coverage_.free_hits += looks && exchange_.control(kHitFree) != 0;
    const bool told = brought.num_hits != kNone;
    const bool drops = hits != 0 && !told && (shape_.flags & kDropLastHit);
    hits -= drops;
    answer.num_hits = static_cast<std::int32_t>(hits);
    if (told && hits != brought.num_hits) return kStopHits;
    const bool loads = brought.flags & kLoadsFirst;
    const u32 computed = fresh ? hits * shape_.block_size + brought.num_external : request.computed;
    const u32 missing = request.num_tokens - computed;
    const u32 padding = missing == 1 && (brought.flags & kPads) ? shape_.rules.padding : 0;
    if (padding != 0 && (1 + padding > budget || request.num_tokens + padding > max_tokens_)) {
      coverage_.not_padded += 1;
      return kStopBudget;
    }
    u32 chunk = loads ? 0 : limit_chunk(missing + padding);
    coverage_.limited_chunks += !loads && chunk < missing + padding;
    if (chunk > budget) {
      if (!(shape_.flags & kChunkedPrefill)) return kStopBudget;
      chunk = budget;
      coverage_.partial_chunks += 1;
    }
    const bool ahead = shape_.flags & kAheadAlways ? !loads : !fresh;
    const u32 needed = std::min(computed + chunk + (ahead ? shape_.lookahead : 0), max_tokens_);
    const u32 reserve = shape_.flags & kReserveAll ? request.num_tokens : 0;
    const u32 publish = shape_.caching && !loads ? computed + chunk : 0;
    const u32 held = request.row == kNone ? hits : request.num_blocks;
    const u32 kept = loads ? shape_.rules.kept_blocks : 0;
    const std::int32_t row = core_.admit(request.slot, hits, reserve, needed, publish, spare, kept);
    if (row == kNotEnoughBlocks) {
      const u32 wanted = blocks_for(std::max(needed, reserve)) - std::min(held, blocks_for(std::max(needed, reserve)));
      const bool fits = wanted + hits <= static_cast<u32>(exchange_.control(kFreeBlocks));
      coverage_.spared += fits && spare != 0 && kept == 0;
      coverage_.kept += fits && kept != 0;
      return kStopBlocks;
    }
    if (row == kNoFreeRow) return kStopRows;
    coverage_.padded += padding != 0;
    coverage_.ahead += ahead && fresh && shape_.lookahead != 0;
    coverage_.hits += hits;
    coverage_.dropped_hits += drops;
    coverage_.held_rows += request.row != kNone;
    coverage_.longer_rows += blocks_for(needed) < held;
    coverage_.external += request.row == kNone && !fresh;
    coverage_.told += told && hits != 0;
    coverage_.brought += brought.num_external != 0 && !loads;
    coverage_.loads += loads;
    const u32 total = std::max(blocks_for(needed), held);
    const auto word = [](u32 value) { return static_cast<std::int32_t>(value); };
    answer = {row, word(hits), word(chunk), word(total), word(total - held), word(computed)};
    return kNotStopped;
  }

  /// Applies the answer to the first waiting request.
  void take_admitted(const AnswerAdmission& answer, const Brought& brought) {
    Request request = waiting_.front();
    waiting_.pop_front();
    const bool loads = brought.flags & kLoadsFirst;
    given_ += cost_of(answer, !loads);
    const u32 before = request.row == kNone ? static_cast<u32>(answer.num_hits) : request.num_published;
    request.row = static_cast<u32>(answer.row);
    request.num_blocks = static_cast<u32>(answer.num_blocks);
    // The padding of an admission is rejected.
    request.computed = std::min(static_cast<u32>(answer.num_computed + answer.num_tokens), request.num_tokens);
    const u32 full = shape_.caching && !loads ? request.computed / shape_.block_size : 0;
    request.num_published = std::max(before, std::min(full, request.num_blocks));
    if (!loads) return running_.push_back(request);
    // The external tokens are loaded by the next step. One token is left to be computed.
    request.computed = std::min(request.computed, request.num_tokens - 1);
    waiting_.push_back(request);
  }

  u32 budget_ = 0;
  u32 scheduled_ = 0;  // tokens of the running entries
  u32 given_ = 0;      // tokens of the admitted requests
};

}  // namespace blockstep::test
