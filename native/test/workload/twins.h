// Two cores with the same requests: the host decides for one, a device for the other. After every
// step they must have the same outcome, the same state, and the same log item by item.
#pragma once

#include "scheduling_mix.h"

namespace blockstep::test {

class Twins {
 public:
  Twins(const MixShape& shape, u64 seed, DecideCoverage& coverage, std::unique_ptr<Device> device)
      : host_(shape, seed, coverage), device_(shape, seed, unused_, std::move(device)) {}

  /// A step of both. It includes preemption: the last running requests are preempted until the
  /// others have their blocks, and no request is admitted then.
  void step() {
    host_.begin();
    device_.begin();
    u32 from = 0;
    bool admits = true;
    for (;;) {
      const Outcome outcome = host_.ask(from, admits);
      const Outcome other = device_.ask(from, admits);
      EXPECT(outcome == other, "step %llu: %u entries, stop %u, %zu answers; the device: %u, %u, %zu", wide(steps_),
             outcome.num_run, outcome.stop, outcome.answers.size(), other.num_run, other.stop, other.answers.size());
      if (outcome.stop != kStopRunning) break;
      from += outcome.num_run;
      admits = false;
      host_.give_way(from);
      device_.give_way(from);
      preemptions_ += 1;
    }
    steps_ += 1;
    compare();
  }

  /// Compares the device's own state, not the host's copy of it.
  void compare_devices() {
    device_.make_digest();
    EXPECT(device_.core().mirror_digest() == host_.core().digest(), "step %llu: the device has another state", wide(steps_));
    device_.core().verify();
    host_.core().verify();
  }

  u64 steps() const { return steps_; }
  u64 preemptions() const { return preemptions_; }
  u64 batches() const { return device_.batches; }
  /// Number of full batches, and of batches that were full before all running entries were written.
  u64 cuts() const { return device_.cuts; }
  u64 running_cuts() const { return device_.running_cuts; }
  const Device& device() const { return device_.core().mirror()->device(); }
  /// Number of batches, by Carrier.
  const u32 (&carried() const)[3] { return device_.core().decider()->carried(); }

 private:
  /// One of the two twins.
  class Twin : public SchedulingMix {
   public:
    using SchedulingMix::SchedulingMix;

    void begin() {
      happen();
      core_.flush();
      is_cut = false;
      plan();
    }

    /// The rest of a full batch is requested in another batch.
    Outcome ask(u32 from, bool admits) {
      Outcome all;
      for (;;) {
        const auto num_asked = admits ? static_cast<u32>(brought_.size()) : 0;
        const Outcome part = by_device_ ? ask_device(from, num_asked) : ask_host(from, num_asked);
        take(from, part);
        from += part.num_run;
        all.num_run += part.num_run;
        all.answers.insert(all.answers.end(), part.answers.begin(), part.answers.end());
        all.stop = part.stop;
        batches += 1;
        if (part.stop != kStopBatch) return all;
        cuts += 1;
        running_cuts += from != planned_.size();
        is_cut = is_cut || from != planned_.size();
      }
    }

    /// Preempts the last running request, and removes its entry if it comes after `from`.
    void give_way(u32 from) {
      const std::size_t victim = running_.size() - 1;
      if (!planned_.empty() && planned_.back().request == victim && planned_.size() > from) planned_.pop_back();
      preempt(victim);
    }

    void make_digest() {
      core_.start_mirror_digest();
      wait_for("a digest", [&] { return core_.mirror_digest().has_value(); });
    }

    HostCore& core() { return core_; }
    const HostCore& core() const { return core_; }
    std::vector<u32> log() { return drain_log(); }
    u64 batches = 0;
    u64 cuts = 0;
    u64 running_cuts = 0;
    bool is_cut = false;  // in this step, between running entries: their commands are cut there too
  };

  void compare() {
    EXPECT(host_.core().digest() == device_.core().digest(), "step %llu: another state", wide(steps_));
    const std::vector<u32> log = items_of(host_.log());
    const std::vector<u32> other = items_of(device_.log());
    EXPECT(log == other || device_.is_cut, "step %llu: another log", wide(steps_));
  }

  /// The log with a separate head for every item, because the host cuts long commands, and the
  /// device does not.
  static std::vector<u32> items_of(const std::vector<u32>& log) {
    std::vector<u32> items;
    for (u32 at = 0; at < log.size(); at += 1 + payload_words(log[at])) {
      const Op op = op_of(log[at]);
      const u32 count = count_of(log[at]);
      const u32 words = op == Op::kOpen ? count + 1 : op == Op::kExtend ? 2 : op == Op::kPublish ? kPublishWords : 1;
      for (u32 i = 0; i < (op == Op::kOpen || op == Op::kReset ? 1 : count); ++i) {
        items.push_back(head_word(op, op == Op::kOpen ? count : 1));
        if (op != Op::kReset) items.insert(items.end(), &log[at + 1 + i * words], &log[at + 1 + i * words] + words);
      }
    }
    return items;
  }

  DecideCoverage unused_;
  Twin host_;
  Twin device_;
  u64 steps_ = 0;
  u64 preemptions_ = 0;
};

}  // namespace blockstep::test
