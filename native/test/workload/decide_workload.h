// Random scheduling steps, each in two forms: operations on a HostCore, like the scheduler's
// passes, and one batch. The decision of the batch must equal the result of the operations, word
// for word.
#pragma once

#include "../../host/decided/batch_writer.h"
#include "scheduling_mix.h"

namespace blockstep::test {

/// One batch, and its expected decision.
struct DecideStep {
  std::vector<u32> batch;
  u32 max_log;
  u32 num_admissions;
  std::vector<u32> decision;
  u64 digest;  // of the state after it
  std::vector<u32> queue;
};

class DecideWorkload : public SchedulingMix {
 public:
  using SchedulingMix::SchedulingMix;

  /// Makes the changes between two steps, and then a step.
  DecideStep next() {
    happen();
    core_.flush();
    writer_.clear();
    const std::vector<u32> facts = drain_log();
    writer_.facts(facts.data(), static_cast<u32>(facts.size()));
    coverage_.facts += facts.size();

    plan();
    const auto num_asked = static_cast<u32>(brought_.size());
    write_running();
    write_admissions();
    DecideStep step;
    step.batch = writer_.words(limits());
    EXPECT(step.batch.size() == writer_.size(), "%zu words instead of %llu", step.batch.size(), wide(writer_.size()));
    step.max_log = static_cast<u32>(writer_.max_log());
    step.num_admissions = num_asked;

    const Outcome outcome = ask_host(0, num_asked);
    write_decision(step.decision, outcome);
    take(0, outcome);
    step.digest = core_.digest();
    const auto num_free = static_cast<u32>(exchange_.control(kFreeBlocks));
    step.queue.resize(num_free);
    std::vector<std::int32_t> queue(num_free + 1);
    core_.read_free_queue({queue.data(), num_free});
    std::copy_n(queue.begin(), num_free, step.queue.begin());
    core_.verify();
    if (outcome.stop == kStopRunning) preempt(running_.size() - 1);
    return step;
  }

 private:
  static void set_wide(u32* words, u64 value) {
    words[0] = static_cast<u32>(value);
    words[1] = static_cast<u32>(value >> 32);
  }

  template <class Record>
  static void append_record(std::vector<u32>& words, const Record& record) {
    const u32* from = reinterpret_cast<const u32*>(&record);
    words.insert(words.end(), from, from + kWordsOf<Record>);
  }

  void write_running() {
    std::vector<std::int32_t> ids(shape_.pool.num_blocks);
    const u32 num_published = core_.read_published({ids.data(), shape_.pool.num_blocks});
    const std::set<std::int32_t> published(ids.begin(), ids.begin() + num_published);
    std::set<std::int32_t> claimed;
    for (const Planned& planned : planned_) {
      const Request& request = running_[planned.request];
      writer_.run(request.row, planned.num_new);
      core_.read_blocks(request.slot, 0, {ids.data(), shape_.pool.num_blocks});
      for (u32 b = request.num_published; b < planned.publish_to; ++b) {
        writer_.publication(request.row, b, core_.block_hash(request.slot, b));
        if (b >= request.num_blocks) continue;
        coverage_.known += published.count(ids[b]);
        coverage_.contested += !published.count(ids[b]) && !claimed.insert(ids[b]).second;
      }
    }
  }

  void write_admissions() {
    std::set<u32> used;
    for (const Request& request : running_) used.insert(request.row);
    for (const Request& request : waiting_) used.insert(request.row);
    for (u32 row = 0; row < shape_.pool.num_rows; ++row) {
      if (!used.count(row)) writer_.free_row(row);
    }
    std::vector<Key> keys;
    for (std::size_t i = 0; i < brought_.size(); ++i) {
      const Request& request = waiting_[i];
      keys.clear();
      const u32 to = shape_.caching ? request.num_tokens / shape_.block_size : 0;
      for (u32 b = request.num_published; b < to; ++b) keys.push_back(core_.block_hash(request.slot, b));
      const auto [num_hits, num_external, flags] = brought_[i];
      writer_.admission({request.num_tokens, request.computed, request.row, request.num_published,
                         static_cast<u32>(keys.size()), num_hits, num_external, flags},
                        keys.data());
    }
  }

  /// The last blocks of a slot.
  void last_blocks(u32 slot, u32 count, std::vector<u32>& ids) {
    std::vector<std::int32_t> list(shape_.pool.max_blocks_per_row);
    const u32 n = core_.read_blocks(slot, 0, {list.data(), shape_.pool.max_blocks_per_row});
    for (u32 i = n - count; i < n; ++i) ids.push_back(static_cast<u32>(list[i]));
  }

  /// Writes the expected decision, from the core's answers and log.
  void write_decision(std::vector<u32>& words, const Outcome& outcome) {
    std::vector<u32> ids;
    for (u32 e = 0; e < outcome.num_run; ++e) last_blocks(running_[planned_[e].request].slot, planned_[e].num_new, ids);
    std::vector<AdmissionAnswer> answers;
    for (std::size_t i = 0; i < outcome.answers.size(); ++i) {
      const AnswerAdmission& answer = outcome.answers[i];
      const auto word = [](std::int32_t value) { return static_cast<u32>(value); };
      const bool admitted = answer.row >= 0;
      answers.push_back({word(answer.row), word(answer.num_hits), word(answer.num_tokens), word(answer.num_blocks),
                         word(answer.num_new), admitted ? static_cast<u32>(ids.size()) : 0});
      if (admitted) last_blocks(waiting_[i].slot, word(answer.num_new), ids);
    }
    const std::vector<u32> log = drain_log();
    count_publications(log);
    coverage_.evictions = static_cast<u32>(exchange_.control(kEvictionsLow));

    DecisionHeader header{};
    header.version = kDecisionVersion;
    header.stop = outcome.stop;
    header.num_run = outcome.num_run;
    header.num_answers = static_cast<u32>(answers.size());
    header.num_admitted = outcome.num_admitted();
    header.num_ids = static_cast<u32>(ids.size());
    header.log_words = static_cast<u32>(log.size());
    header.num_free = static_cast<u32>(exchange_.control(kFreeBlocks));
    header.num_published = static_cast<u32>(exchange_.control(kPublishedBlocks));
    header.rows_in_use = static_cast<u32>(exchange_.control(kRowsInUse));
    set_wide(header.rolling_digest, core_.rolling_digest());
    set_wide(header.num_commands, num_commands_);
    header.words = static_cast<u32>(decision_words(header.num_answers, header.num_ids, header.log_words));
    append_record(words, header);
    for (const AdmissionAnswer& answer : answers) append_record(words, answer);
    words.insert(words.end(), ids.begin(), ids.end());
    words.insert(words.end(), log.begin(), log.end());
  }

  void count_publications(const std::vector<u32>& log) {
    for (u32 at = 0; at < log.size(); at += 1 + payload_words(log[at])) {
      if (op_of(log[at]) == Op::kPublish) coverage_.published += count_of(log[at]);
    }
  }

  BatchWriter writer_;
};

}  // namespace blockstep::test
