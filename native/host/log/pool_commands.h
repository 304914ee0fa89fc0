// PoolCommands: commands on block ids instead of slots: pins, evictions, and the reset of the
// prefix cache.
#pragma once

#include "../../base/span.h"
#include "fact_log.h"

namespace blockstep {

class PoolCommands {
 public:
  explicit PoolCommands(FactLog& facts) : facts_(facts), state_(facts.state()) {}

  /// Checks that every id is the id of a block other than the null block. @throws Error kBadArg
  void check(Span<const std::int32_t> ids) const;
  // The ids of these commands must have passed check(). A command that throws has changed nothing.
  /// Pins the blocks. @throws Error kLimit if a block would have too many references;
  /// std::bad_alloc
  void pin(Span<const std::int32_t> ids);
  /// Drops one pin per id. @throws Error kNotPinned if a block is named more often than it is
  /// pinned; std::bad_alloc
  void unpin(Span<const std::int32_t> ids);
  /// Drops the keys of the blocks. @throws std::bad_alloc
  void evict(Span<const std::int32_t> ids) { commit(Op::kEvict, ids); }
  /// Drops every key and returns true. If a block is in use, changes nothing and returns false.
  bool reset();

 private:
  void commit(Op op, Span<const std::int32_t> ids);

  FactLog& facts_;
  State& state_;
};

}  // namespace blockstep
