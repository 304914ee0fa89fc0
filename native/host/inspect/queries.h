// Queries about a core. Queries do not change the state. The caller has drained the pending
// operations.
#pragma once

#include "../../base/span.h"
#include "../requests/slots.h"

namespace blockstep {

/// The read_ functions write as many elements as exist and fit into the span, and return their
/// number.
class Queries {
 public:
  Queries(const HostConfig& config, FactLog& facts, Slots& slots)
      : config_(config), state_(facts.state()), slots_(slots), table_(slots.table()) {}

  /// The handle of the slot's request; 0 if the slot is not open.
  u64 handle(u32 slot) const { return table_.is_open(slot) ? table_.handle(slot) : 0; }
  /// The number of known tokens of the slot. @throws Error kBadSlot; so do read_tokens() and
  /// read_blocks()
  u32 num_tokens(u32 slot) const { return slots_.open_slot(slot).num_tokens; }
  u32 read_tokens(u32 slot, u32 from, Span<std::int32_t> out) const;
  u32 read_blocks(u32 slot, u32 from, Span<std::int32_t> out, u32 group) const;
  /// Ids of the free blocks, head of the queue first.
  u32 read_free_queue(Span<std::int32_t> out) const;
  /// Ids of the published blocks, in ascending order.
  u32 read_published(Span<std::int32_t> out) const;
  /// The hash of full block `index` of the slot, computed if necessary. @throws Error kBadSlot,
  /// kBadArg, std::bad_alloc
  Key block_hash(u32 slot, u32 index);
  /// Returns null, or the name of a broken invariant of the state or the slots. @throws
  /// std::bad_alloc
  const char* broken_invariant() const;

 private:
  const HostConfig& config_;
  State& state_;
  Slots& slots_;
  RequestTable& table_;
};

}  // namespace blockstep
