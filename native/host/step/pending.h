// What TypeScript left in the exchange buffer since the last call: sampled tokens, publications and releases.
#pragma once

#include "admissions.h"

namespace blockstep {

class Pending {
 public:
  Pending(const HostConfig& config, const Exchange& exchange, Condition& condition, FactLog& facts, Slots& slots,
          Admissions& admissions)
      : config_(config), exchange_(exchange), condition_(condition), facts_(facts), slots_(slots),
        table_(slots.table()), admissions_(admissions) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// Applies everything that is pending. Called at the start of every operation, so that no caller can see a state that
  /// is older than what TypeScript has already said; but while the device decides, all of it stays pending until the
  /// state has followed. @throws Error as Condition::require_sound(), std::bad_alloc
  void drain();

 private:
  void drain(u32 count);
  void apply(u32 word, std::int32_t argument);

  const HostConfig& config_;
  const Exchange& exchange_;
  Condition& condition_;
  FactLog& facts_;
  Slots& slots_;
  RequestTable& table_;
  Admissions& admissions_;
};

}  // namespace blockstep
