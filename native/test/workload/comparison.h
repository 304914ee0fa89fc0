// A device against the host, in both authorities. If the host decides, random logs are applied by
// both, through a mirror. After every step the taken block ids, the rolling digest and the digest
// of the whole state must be equal. decided_comparison.h is for a device that decides. Used with a
// GPU, and with the emulated device.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "decided_comparison.h"
#include "traffic.h"
#include "workload.h"

namespace blockstep::test {

constexpr u32 kMaxLogs = 3;
/// In this number of steps every carrier of a batch is used.
constexpr u64 kEnough = 5000;

struct Setup {
  const char* name;
  Config config;
  u32 num_docs;
  u32 longest;       // of a request, in blocks; 0: commands of every kind from the model (Workload)
  u32 share;         // of all steps, in percent
  u32 digest_every;  // steps
  u32 burst;         // number of steps that are submitted before a wait
};

inline const Setup kSetups[] = {
    {"tiny pool, one bucket", {24, 6, 8, kForceBits}, 2, 0, 15, 1, 1},
    {"tiny pool, at most eight blocks", {8, 3, 6, 0}, 2, 0, 5, 1, 1},
    {"small pool", {100, 12, 16, 0}, 6, 0, 20, 1, 1},
    {"small pool, logs that join", {600, 24, 64, kForceBits + 2}, 12, 0, 8, 1, 40},
    {"256 rows", {10000, 256, 128, 0}, 40, 100, 30, 1, 1},
    {"256 rows, 64 buckets, steps in flight", {10000, 256, 128, kForceBits + 6}, 40, 100, 15, 1, 5},
    {"rows of 8,192 blocks", {65536, 64, 8192, 0}, 8, 8000, 5, 4, 1},
    {"1,048,576 blocks", {1048576, 512, 4096, 0}, 60, 4000, 2, 16, 1},
};

/// A device, and a function that reads the ids of its last log once it is idle.
struct Subject {
  std::unique_ptr<Device> device;
  std::function<void(u32* ids, u32 count)> read_ids;
};
/// Makes a device with a state of this configuration, for at most `max_logs` logs at once.
using MakeSubject = std::function<Subject(const Config& config, u32 max_logs)>;

/// One configuration: both states, the mirror between them, and the counts.
class Comparison {
 public:
  Comparison(const Setup& setup, const MakeSubject& make, u64 seed)
      : setup_(setup), host_(setup.config), mirror_(take(make(setup.config, kMaxLogs)), limits()) {
    if (setup.longest == 0) {
      const Config& c = setup.config;
      const Shape shape{c.num_blocks, c.num_rows, c.max_blocks_per_row, c.bucket_bits, setup.num_docs};
      auto workload = std::make_shared<Workload>(shape, seed);
      // A log may take at most all blocks (MirrorLimits). The rest begins the next log.
      draw_ = [workload, most = c.num_blocks, kept = Log(), kept_taken = std::size_t{0}]() mutable {
        Log log = std::exchange(kept, Log());
        std::size_t all = std::exchange(kept_taken, 0);
        for (u32 n = 1 + workload->random.below(4); n != 0; --n) {
          Log more;
          std::vector<u32> taken;
          workload->step(more, taken);
          if (all + taken.size() > most) {
            kept = std::move(more);
            kept_taken = taken.size();
            break;
          }
          log.words.insert(log.words.end(), more.words.begin(), more.words.end());
          all += taken.size();
        }
        return log;
      };
    } else {
      auto traffic = std::make_shared<Traffic>(host_, setup.num_docs, setup.longest, seed);
      draw_ = [traffic] { return traffic->step(); };
    }
    compare_states(0);  // the initial state
  }

  void run(u64 steps) {
    for (u64 step = 1; step <= steps; ++step) {
      const Log log = draw_();
      if (!log.words.empty()) apply(log);
      mirror_.submit();
      if (step % setup_.burst != 0 && step != steps) continue;
      settle();
      if (setup_.burst == 1 && !log.words.empty()) compare_ids(step);
      if (step % setup_.digest_every < setup_.burst || step == steps) compare_states(step);
    }
    const char* broken = verify(host_.state);
    EXPECT(broken == nullptr, "%s: %s", setup_.name, broken);
    steps_ = steps;
  }

  void print(std::FILE* out, bool last) const {
    std::fprintf(out, "    {\"name\": \"%s\", \"authority\": \"host\", \"steps\": %llu, \"logs\": %llu, \"commands\": %llu, \"taken\": %llu, "
                "\"evictions\": %llu, \"small\": %u, \"large\": %u, \"slot\": %u, \"digests\": %llu, "
                "\"deviceBytes\": %llu, \"pinnedBytes\": %llu}%s\n",
                setup_.name, wide(steps_), wide(mirror_.logs()), wide(host_.state.num_commands),
                wide(host_.state.num_taken), wide(host_.state.evictions), carried_[0], carried_[1], carried_[2],
                wide(digests_), wide(mirror_.device().device_bytes()), wide(mirror_.device().pinned_bytes()),
                last ? "" : ",");
  }

  const u32 (&carried() const)[3] { return carried_; }

 private:
  std::unique_ptr<Device> take(Subject subject) {
    read_ids_ = std::move(subject.read_ids);
    return std::move(subject.device);
  }

  MirrorLimits limits() const {
    return {kMaxLogs, slot_words(setup_.config), setup_.config.num_blocks, kMaxWaitingWords};
  }

  void apply(const Log& log) {
    host_.apply(log);
    EXPECT(host_.results.fault == kNoFault, "%s: %s", setup_.name, describe(host_.results.fault));
    mirror_.append(log.words.data(), log.size(), host_.results.num_ids, host_.state.rolling_digest);
    carried_[static_cast<u32>(carrier_of(log.size()))] += 1;
  }

  void settle() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (mirror_.poll(), !mirror_.idle()) {
      EXPECT(std::chrono::steady_clock::now() < deadline, "%s: the GPU did not answer in two minutes", setup_.name);
    }
  }

  /// Compares the ids of the last log word by word. The rolling digest has already compared them as
  /// a sum.
  void compare_ids(u64 step) {
    ids_.resize(host_.results.num_ids);
    if (ids_.empty()) return;
    read_ids_(ids_.data(), host_.results.num_ids);
    EXPECT(ids_ == host_.ids, "%s, step %llu: other blocks were taken", setup_.name, wide(step));
  }

  void compare_states(u64 step) {
    mirror_.start_digest(digest(host_.state));
    settle();
    EXPECT(mirror_.digest() == digest(host_.state), "%s, step %llu: no digest", setup_.name, wide(step));
    digests_ += 1;
  }

  const Setup& setup_;
  Machine host_;
  std::function<void(u32*, u32)> read_ids_;
  Mirror mirror_;
  std::function<Log()> draw_;
  std::vector<u32> ids_;
  u64 steps_ = 0;
  u64 digests_ = 0;
  u32 carried_[3] = {};
};

/// Runs every configuration of both authorities with its share of `steps`, and prints the results
/// as JSON. `header` is its first lines.
inline void compare_all(std::FILE* out, const char* header, const MakeSubject& make, const MakeDecider& make_decider,
                        u64 steps, u64 seed) {
  const auto start = std::chrono::steady_clock::now();
  std::fprintf(out, "{\n%s  \"seed\": %llu,\n  \"runs\": [\n", header, wide(seed));
  u64 all_steps = 0;
  u32 carried[3] = {};
  for (const Setup& setup : kSetups) {
    const u64 share = (steps * setup.share + 99) / 100;
    Comparison comparison(setup, make, seed + all_steps);
    comparison.run(share);
    all_steps += share;
    for (u32 i = 0; i < 3; ++i) carried[i] += comparison.carried()[i];
    comparison.print(out, false);
    std::fflush(out);
  }
  EXPECT(carried[0] && carried[1] && carried[2], "%u small, %u large, %u in slots", carried[0], carried[1], carried[2]);
  u32 batches[3] = {};
  for (const DecidedSetup& setup : kDecidedSetups) {
    const u64 share = (steps * setup.share + 999) / 1000;
    DecidedComparison comparison(setup, make_decider, seed + all_steps);
    comparison.run(share);
    all_steps += share;
    for (u32 i = 0; i < 3; ++i) batches[i] += comparison.carried()[i];
    comparison.print(out, &setup == std::end(kDecidedSetups) - 1);
    std::fflush(out);
  }
  EXPECT(batches[0], "no small batch");
  if (steps >= kEnough) EXPECT(batches[1] && batches[2], "%u large, %u in slots", batches[1], batches[2]);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::fprintf(out, "  ],\n  \"steps\": %llu,\n  \"seconds\": %.1f,\n  \"equal\": true\n}\n", wide(all_steps), took.count());
}

}  // namespace blockstep::test
