// Commands on block ids that somebody outside of a step names: pins, evictions, and the reset of the prefix cache.
#pragma once

#include "../../base/span.h"
#include "fact_log.h"

namespace blockstep {

class PoolCommands {
 public:
  explicit PoolCommands(FactLog& facts) : facts_(facts), state_(facts.state()) {}

  /// Every id must be that of a block, the null block excepted. @throws Error kBadArg
  void check(Span<const std::int32_t> ids) const;
  /// @throws Error kLimit; nothing is changed. So with all of these; check() has passed the ids.
  void pin(Span<const std::int32_t> ids);
  /// @throws Error kNotPinned if a block is named more often than it is pinned; std::bad_alloc
  void unpin(Span<const std::int32_t> ids);
  void evict(Span<const std::int32_t> ids) { commit(Op::kEvict, ids); }
  /// Drops every key. False, and nothing is changed: a block is in use.
  bool reset();

 private:
  void commit(Op op, Span<const std::int32_t> ids);

  FactLog& facts_;
  State& state_;
};

}  // namespace blockstep
