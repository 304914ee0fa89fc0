// Figures: samples of one measurement, their percentiles, and one JSON object a line
// (bench/gpu/record/figure.ts reads them).
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

/// Number of samples of a measurement. It ends early only after `most`, and the figure then
/// contains its number of samples. Beside work that holds the GPU for milliseconds this is usual,
/// because all figures together must fit into a run.
struct Effort {
  u32 samples = 4000;
  u32 warmup = 500;
  Clock::duration most = std::chrono::milliseconds(1200);
};

/// Times of one measurement, in microseconds.
class Samples {
 public:
  void add(Clock::duration time) { times_.push_back(microseconds(time)); }
  u32 size() const { return static_cast<u32>(times_.size()); }

  /// The smallest time that `percent` percent of the samples do not exceed.
  double percentile(double percent) {
    std::sort(times_.begin(), times_.end());
    const double rank = percent / 100 * static_cast<double>(times_.size());
    const std::size_t at = static_cast<std::size_t>(std::max(1.0, std::ceil(rank))) - 1;
    return times_[std::min(at, times_.size() - 1)];
  }

 private:
  std::vector<double> times_;
};

/// The last measured clock of the multiprocessors, in MHz; 0: never measured. Every figure contains
/// it.
inline double clock_mhz = 0;

/// Number of ended samples and announcements (stall_watch.h).
inline std::atomic<u64> progress{0};

/// The name and the budget of a figure.
struct Label {
  std::string name;
  const char* authority = nullptr;  // the side that decides: host, device, or nobody
  std::string beside = "idle";      // concurrent work of the GPU
  double budget = 0;                // microseconds; 0: none
  u64 block_bytes = 0;              // of copies: bytes of a block, and total bytes
  u64 bytes = 0;
};

/// Prints one figure at once, so that an aborted benchmark has printed its earlier figures.
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

/// Announces the next measurement on stderr, so that a stopped benchmark shows its position.
inline void announce(const std::string& what, const std::string& beside) {
  progress += 1;
  std::fprintf(stderr, "%s, beside: %s\n", what.c_str(), beside.c_str());
}

/// Time limit of one sample. A GPU on which a call waits forever must not cost the later figures.
constexpr std::chrono::seconds kMostOfOne{5};

/// Calls `sample` for the warm-up and then for every sample. Its argument tells whether the sample
/// counts.
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
