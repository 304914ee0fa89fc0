// Measures from the call that gives a step to the GPU to the word that reports its decision. The
// GPU decides.
#pragma once

#include "../../../host/decided/decider.h"
#include "kernels/matrix_product.h"
#include "worn_pool.h"

namespace blockstep::bench {

/// The same steps as MirrorBench: a batch asks for the grants of the step's log. Only give() and
/// poll() are measured, not the writing of the batch, nor the host's work after the decision.
class DeciderBench {
 public:
  explicit DeciderBench(u32 device) : pool_(device, true), decider_(pool_.mirror(), kPool) {}

  /// All steps beside one kind of work. Every decision is compared with the log, and the digest of
  /// the whole state at the end.
  void run(Beside beside, const Effort& effort) {
    for (const MeasuredStep& step : pool_.measured_steps()) measure(step, beside, effort);
  }

 private:
  void measure(const MeasuredStep& step, Beside beside, const Effort& effort) {
    Samples whole;
    Samples launch;
    repeat(effort, [&](bool counts) {
      pool_.make_room();
      pool_.act(step.before);
      test::Log log;
      step.step(log);
      const test::Log facts = ask(log);
      if (facts.size() != 0) pool_.apply_here(facts);
      const auto start = Clock::now();
      if (facts.size() != 0) pool_.append(facts);
      decider_.give(batch_, kLimits);
      const auto launched = Clock::now();
      const Decision* decision;
      while (!(decision = decider_.poll())) {
      }
      const auto end = Clock::now();
      if (counts) {
        whole.add(end - start);
        launch.add(launched - start);
      }
      follow(*decision, log, facts.size());
      pool_.act(step.after);
    });
    pool_.compare();
    Label label{step.name, "device", name_of(beside)};
    print(label, whole);
    label.name += ", host side";
    print(label, launch);
  }

  /// Writes the batch whose decision is `log`. Returns the undecided beginning of the log, which
  /// ends requests.
  test::Log ask(const test::Log& log) {
    batch_.clear();
    test::Log facts;
    u32 opened = kNone;  // the row of the last Open
    const u32* extended = nullptr;
    for (u32 at = 0; at < log.size(); at += 1 + payload_words(log.words[at])) {
      const u32* payload = &log.words[at] + 1;
      const u32 count = count_of(log.words[at]);
      switch (op_of(log.words[at])) {
        case Op::kRelease:
          facts.words.insert(facts.words.end(), payload - 1, payload + payload_words(log.words[at]));
          break;
        case Op::kOpen:
          opened = payload[0];
          break;
        case Op::kExtend:
          extended = payload;
          break;
        case Op::kPublish:
          if (opened == kNone) {
            run(extended, payload, count);
          } else {
            admit(opened, payload, count);
          }
          break;
        default:
          EXPECT(false, "a command that no step has");
      }
    }
    return facts;
  }

  /// Running entries, each of which takes one block and fills it.
  void run(const u32* pairs, const u32* publications, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      const u32* publication = publications + u64{i} * kPublishWords;
      batch_.run(pairs[2 * i], pairs[2 * i + 1]);
      batch_.publication(publication[0], publication[1], key_at(publication + 2));
    }
  }

  /// One admission of whole blocks, none of which is cached.
  void admit(u32 row, const u32* publications, u32 count) {
    keys_.clear();
    for (u32 i = 0; i < count; ++i) keys_.push_back(key_at(publications + u64{i} * kPublishWords + 2));
    batch_.free_row(row);
    batch_.admission({count * kBlockSize, 0, kNone, 0, count, kNone, 0, 0}, keys_.data());
  }

  /// The GPU's decision must equal the rest of the log. The host applies the same.
  void follow(const Decision& decision, const test::Log& log, u32 num_facts) {
    const DecisionHeader& header = decision.header;
    const bool equal = header.stop == kNotStopped && header.log_words == log.size() - num_facts &&
                       std::equal(decision.log, decision.log + header.log_words, log.words.data() + num_facts);
    EXPECT(equal, "the GPU decided another step: %u words of log instead of %u, stop %u", header.log_words,
           log.size() - num_facts, header.stop);
    pool_.apply_here({{decision.log, decision.log + header.log_words}});
    const test::Machine& host = pool_.host();
    const u64 rolling_digest = header.rolling_digest[0] | u64{header.rolling_digest[1]} << 32;
    EXPECT(rolling_digest == host.state.rolling_digest && header.num_ids == host.results.num_ids &&
               std::equal(host.ids.begin(), host.ids.end(), decision.ids),
           "the GPU took other blocks than the host");
  }

  static constexpr u32 kMostTokens = kLongBlocks * kBlockSize;
  static constexpr BatchLimits kLimits{kChunkedPrefill | kReserveAll, kMostTokens, kOthers, kBlockSize, 0, 0,
                                       kMostTokens};

  WornPool pool_;
  Decider decider_;
  BatchWriter batch_;
  std::vector<Key> keys_;
};

}  // namespace blockstep::bench
