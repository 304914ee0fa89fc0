// Pending: applies the operations that TypeScript left in the pending area since the last call,
// such as sampled tokens, publications and releases (PendingOp in base/exchange.h).
#pragma once

#include "../groups/groups.h"
#include "admissions.h"

namespace blockstep {

class Pending {
 public:
  /// @param groups null: one group of full attention
  Pending(const HostConfig& config, const Exchange& exchange, Condition& condition, FactLog& facts, Slots& slots,
          Admissions& admissions, Groups* groups)
      : config_(config), exchange_(exchange), condition_(condition), facts_(facts), slots_(slots),
        table_(slots.table()), admissions_(admissions), groups_(groups) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// Applies all pending operations. Every operation of the core calls this before it reads the
  /// state, so that it sees all earlier operations of TypeScript. While a decision of the device is
  /// pending, these operations stay pending until the state has followed it. @throws Error like
  /// Condition::require_sound(), std::bad_alloc
  void drain();

  /// Fills in the computed tokens of the first kNumSteady entries of run(frame, from, to). These
  /// are all known tokens except the last, and the tokens of kNumAhead steps in flight.
  /// @throws Error kBadArg
  void compute_last(u32 frame, u32 from, u32 to);

 private:
  void drain(u32 count);
  void drain_sampled();
  void apply(u32 word, std::int32_t argument);
  void publish(Slot& slot, u32 tokens);
  void release(Slot& slot);
  void forget_match(u32 slot);

  const HostConfig& config_;
  const Exchange& exchange_;
  Condition& condition_;
  FactLog& facts_;
  Slots& slots_;
  RequestTable& table_;
  Admissions& admissions_;
  Groups* const groups_;
  u32 num_appended_ = 0;  // sampled tokens that were appended before memory ran out
};

}  // namespace blockstep
