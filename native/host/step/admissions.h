// One request that is to be admitted: what the prefix cache has of it, and the row and blocks that it gets.
#pragma once

#include <vector>

#include "../../base/span.h"
#include "../requests/slots.h"

namespace blockstep {

constexpr std::int32_t kNotEnoughBlocks = -1;
constexpr std::int32_t kNoFreeRow = -2;

class Admissions {
 public:
  Admissions(const HostConfig& config, const Exchange& exchange, FactLog& facts, Slots& slots)
      : config_(config), exchange_(exchange), facts_(facts), state_(facts.state()), slots_(slots), table_(slots.table()) {
    match_.ids.resize(config.pool.max_blocks_per_row);
  }
  Admissions(const Admissions&) = delete;
  Admissions& operator=(const Admissions&) = delete;

  /// Cached blocks at the front of the slot's full ones, `max_blocks` at most. Shows TypeScript how many of them are
  /// free. @throws Error kBadSlot, std::bad_alloc
  u32 match(u32 slot, u32 max_blocks);
  /// The slot's tokens are no longer those of the last match().
  void forget_match(u32 slot) {
    if (match_.slot == slot) match_.slot = kNone;
  }

  /// Gives the slot a row, if it has none, that begins with its first `hit_blocks` cached blocks, and blocks for
  /// `need_tokens` tokens, if there are enough for `reserve_tokens`; publishes the full ones of the first
  /// `publish_tokens`. Returns the row, kNotEnoughBlocks or kNoFreeRow. @throws Error kBadSlot, kBadArg, std::bad_alloc;
  /// nothing is changed
  std::int32_t admit(u32 slot, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens);

 private:
  /// The answer to the last match(), good as long as nothing changed.
  struct Match {
    u32 slot = kNone;
    u64 version = 0;  // State::num_commands then
    u32 count = 0;
    std::vector<u32> ids;  // [max_blocks_per_row]
  };

  Span<const u32> hits_for(u32 slot, u32 hit_blocks);

  const HostConfig& config_;
  const Exchange& exchange_;
  FactLog& facts_;
  State& state_;
  Slots& slots_;
  RequestTable& table_;
  Match match_;
};

}  // namespace blockstep
