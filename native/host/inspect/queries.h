// What can be asked of a core. Queries change nothing; whoever calls them has drained what was pending.
#pragma once

#include "../../base/span.h"
#include "../requests/slots.h"

namespace blockstep {

/// Block ids are in range: the caller has checked them. Reads into a span fill as much of it as there is, and return how
/// much that was.
class Queries {
 public:
  Queries(const HostConfig& config, FactLog& facts, Slots& slots)
      : config_(config), state_(facts.state()), slots_(slots), table_(slots.table()) {}

  /// 0: the slot is not open.
  u64 handle(u32 slot) const { return table_.is_open(slot) ? table_.handle(slot) : 0; }
  /// @throws Error kBadSlot, and so do the next two
  u32 num_tokens(u32 slot) const { return slots_.open_slot(slot).num_tokens; }
  u32 read_tokens(u32 slot, u32 from, Span<std::int32_t> out) const;
  u32 read_blocks(u32 slot, u32 from, Span<std::int32_t> out) const;
  u32 read_free_queue(Span<std::int32_t> out) const;
  u32 read_published(Span<std::int32_t> out) const;
  /// The hash of a full block of the slot, which is made now if it was not yet. @throws Error kBadSlot, kBadArg,
  /// std::bad_alloc
  Key block_hash(u32 slot, u32 index);
  /// Null, or the invariant that is broken. @throws std::bad_alloc
  const char* broken_invariant() const;

 private:
  const HostConfig& config_;
  State& state_;
  Slots& slots_;
  RequestTable& table_;
};

}  // namespace blockstep
