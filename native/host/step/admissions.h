// Admissions: the prefix cache lookup of a waiting request, and its admission with a row and
// blocks.
#pragma once

#include <vector>

#include "../../base/span.h"
#include "../requests/slots.h"

namespace blockstep {

class Admissions {
 public:
  Admissions(const HostConfig& config, const Exchange& exchange, FactLog& facts, Slots& slots)
      : config_(config), exchange_(exchange), facts_(facts), state_(facts.state()), slots_(slots), table_(slots.table()) {
    match_.ids.resize(config.pool.max_blocks_per_row);
  }
  Admissions(const Admissions&) = delete;
  Admissions& operator=(const Admissions&) = delete;

  /// Number of leading full blocks of the slot in the prefix cache. Looks up at most `max_blocks`.
  /// Writes the number of these blocks that are free to the control word kHitFree. Like vLLM's
  /// get_computed_blocks. @throws Error kBadSlot, std::bad_alloc
  u32 match(u32 slot, u32 max_blocks);
  /// Forgets the last match() if it was for this slot, because the tokens of the slot have changed.
  void forget_match(u32 slot) {
    if (match_.slot == slot) match_.slot = kNone;
  }

  /// Admits the slot's request, if enough blocks are free for `reserve_tokens` tokens.
  /// `spare_blocks` stay free in addition to these, and `reserved_blocks` more in addition to the
  /// blocks that the admission takes. A slot without a row gets a row, which begins with the slot's
  /// first `hit_blocks` cached blocks. The row then gets blocks until it has room for `need_tokens`
  /// tokens, and the full blocks of the first `publish_tokens` tokens are published. Returns the
  /// row, or kNotEnoughBlocks or kNoFreeRow, which change nothing. Like vLLM's allocate_slots.
  /// @throws Error kBadSlot, kBadArg, std::bad_alloc; nothing is changed
  std::int32_t admit(u32 slot, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens,
                     u32 spare_blocks = 0, u32 reserved_blocks = 0);

 private:
  /// The answer of the last match(); valid while State::num_commands is `version`.
  struct Match {
    u32 slot = kNone;
    u64 version = 0;  // State::num_commands at the match
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
