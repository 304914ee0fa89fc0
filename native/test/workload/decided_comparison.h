// A device that decides against the host. Both decide random steps. After every step the outcome,
// the log and the next state must be equal, and sometimes also the digest of the device's own
// state. Used with a GPU, and with the emulated device.
#pragma once

#include <chrono>
#include <functional>

#include "twins.h"

namespace blockstep::test {

struct DecidedSetup {
  const char* name;
  MixShape shape;
  u32 share;         // of all steps, in thousandths
  u32 digest_every;  // steps
};

constexpr u32 kUsual = kChunkedPrefill | kReserveAll;

inline const DecidedSetup kDecidedSetups[] = {
    // {pool {blocks, rows, blocks a row, bits}, block size, running, budget, prefill limit,
    // lookahead, flags, caching, documents}
    {"tiny pool, one bucket", {{24, 8, 8, kForceBits}, 2, 6, 16, 7, 0, kUsual, true, 2}, 150, 1},
    {"few rows", {{40, 5, 10, 0}, 4, 12, 64, 0, 0, kChunkedPrefill, true, 3}, 100, 1},
    {"prefills in chunks, lookahead",
     {{60, 16, 12, kForceBits + 2}, 4, 12, 48, 20, 3, kUsual | kDropLastHit, true, 4}, 200, 1},
    {"prefills whole", {{60, 16, 12, 0}, 3, 12, 64, 0, 5, kReserveAll, true, 4}, 100, 1},
    {"no prefix caching", {{50, 10, 12, 0}, 4, 8, 32, 0, 0, kUsual, false, 3}, 100, 1},
    {"60 running", {{400, 70, 40, kForceBits + 3}, 4, 60, 400, 0, 0, kUsual, true, 6}, 145, 1},
    {"rules: slots, padding, blocks that stay free",
     {{60, 16, 12, 0}, 2, 12, 30, 3, 2, kUsual, true, 3, {2, 4, 6, 9}}, 60, 1},
    {"rules: lookahead for all", {{60, 16, 12, 0}, 4, 12, 64, 0, 3, kUsual | kAheadAlways, true, 4, {1, 3, 0, 0}}, 40, 1},
    {"10,000 blocks", {{10000, 256, 128, 0}, 16, 256, 8192, 0, 0, kUsual, true, 40}, 100, 4},
    {"rows of 16,000 blocks", {{100000, 24, 16000, 0}, 1, 16, 24000, 5000, 0, kUsual, true, 5}, 5, 8},
};

/// Makes a device that decides, with a state of this configuration, for at most `max_logs` logs at
/// once.
using MakeDecider = std::function<std::unique_ptr<Device>(const Config& config, u32 max_logs)>;

class DecidedComparison {
 public:
  DecidedComparison(const DecidedSetup& setup, const MakeDecider& make, u64 seed)
      : setup_(setup), twins_(setup.shape, seed, coverage, make(setup.shape.pool, 2)) {}

  void run(u64 steps) {
    while (twins_.steps() < steps) {
      twins_.step();
      if (twins_.steps() % setup_.digest_every == 0 || twins_.steps() == steps) compare_devices();
    }
  }

  void print(std::FILE* out, bool last) const {
    const Device& device = twins_.device();
    const u32(&carried)[3] = twins_.carried();
    std::fprintf(out, "    {\"name\": \"%s\", \"authority\": \"device\", \"steps\": %llu, \"batches\": %llu, "
                "\"entries\": %llu, \"hits\": %llu, \"preemptions\": %llu, \"small\": %u, \"large\": %u, \"slot\": %u, "
                "\"digests\": %llu, \"deviceBytes\": %llu, \"pinnedBytes\": %llu}%s\n",
                setup_.name, wide(twins_.steps()), wide(twins_.batches()), wide(coverage.run), wide(coverage.hits),
                wide(twins_.preemptions()), carried[0], carried[1], carried[2], wide(digests_),
                wide(device.device_bytes()), wide(device.pinned_bytes()), last ? "" : ",");
  }

  const u32 (&carried() const)[3] { return twins_.carried(); }
  DecideCoverage coverage;

 private:
  void compare_devices() {
    twins_.compare_devices();
    digests_ += 1;
  }

  const DecidedSetup& setup_;
  Twins twins_;
  u64 digests_ = 0;
};

}  // namespace blockstep::test
