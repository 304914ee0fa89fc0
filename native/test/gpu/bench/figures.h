// How a figure is made: samples of one thing, their percentiles, one JSON object a line (bench/gpu/record/figure.ts reads them).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "../../../core/base/types.h"

namespace blockstep::bench {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// How often a thing is measured. It ends early only when `most` is over: then the figure says how many samples it has.
/// Beside what holds the GPU for milliseconds that is the usual end, and all figures together have to fit into a run.
struct Effort {
  u32 samples = 4000;
  u32 warmup = 500;
  Clock::duration most = std::chrono::milliseconds(1200);
};

/// Times of one thing, in microseconds.
class Samples {
 public:
  void add(Clock::duration time) { times_.push_back(microseconds(time)); }
  u32 size() const { return static_cast<u32>(times_.size()); }

  /// The smallest time that so many percent of the samples do not exceed.
  double percentile(double percent) {
    std::sort(times_.begin(), times_.end());
    const double rank = percent / 100 * static_cast<double>(times_.size());
    const std::size_t at = static_cast<std::size_t>(std::max(1.0, std::ceil(rank))) - 1;
    return times_[std::min(at, times_.size() - 1)];
  }

 private:
  std::vector<double> times_;
};

/// The clock of the multiprocessors when it was asked for last, in MHz; 0: never. Every figure says it.
inline double clock_mhz = 0;

/// Counts what has ended: samples and announcements (stall_watch.h).
inline std::atomic<u64> progress{0};

/// What a figure is of, and what it may be.
struct Label {
  std::string name;
  const char* authority = nullptr;  // who decided: host, device, or nobody
  std::string beside = "idle";      // what else the GPU does
  double budget = 0;                // microseconds; 0: none
  u64 block_bytes = 0;              // of copies: a block, and all of it
  u64 bytes = 0;
};

/// Prints one figure at once, so that a benchmark that breaks off has told what it knew.
inline void print(const Label& label, Samples& samples) {
  if (samples.size() == 0) return;
  const double median = samples.percentile(50);
  std::printf("{\"name\":\"%s\",\"authority\":", label.name.c_str());
  std::printf(label.authority ? "\"%s\"" : "null", label.authority);
  std::printf(",\"beside\":\"%s\",\"p50Us\":%.3f,\"p99Us\":%.3f,\"samples\":%u", label.beside.c_str(), median,
              samples.percentile(99), samples.size());
  if (clock_mhz > 0) std::printf(",\"clockMHz\":%.0f", clock_mhz);
  if (label.budget > 0) std::printf(",\"budgetUs\":%g", label.budget);
  if (label.block_bytes != 0) std::printf(",\"blockBytes\":%llu", static_cast<unsigned long long>(label.block_bytes));
  if (label.bytes != 0) std::printf(",\"gbPerSecond\":%.3f", static_cast<double>(label.bytes) / median / 1000);
  std::printf("}\n");
  std::fflush(stdout);
}

/// Says on stderr what comes next, so that a benchmark that is stopped has told where.
inline void announce(const std::string& what, const std::string& beside) {
  progress += 1;
  std::fprintf(stderr, "%s, beside: %s\n", what.c_str(), beside.c_str());
}

/// How long one sample may take. A GPU that lets something wait for ever must not cost the figures behind it.
constexpr std::chrono::seconds kMostOfOne{5};

/// Calls `sample` for the warm-up and then for every sample; it gets whether this one counts.
inline void repeat(const Effort& effort, const std::function<void(bool counts)>& sample) {
  const auto start = Clock::now();
  const auto once = [&](bool counts) {
    sample(counts);
    progress += 1;
  };
  for (u32 i = 0; i < effort.warmup && Clock::now() - start < effort.most / 4; ++i) once(false);
  for (u32 i = 0; i < effort.samples && (i == 0 || Clock::now() - start < effort.most); ++i) once(true);
}

}  // namespace blockstep::bench
