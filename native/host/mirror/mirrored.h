// The mirror of one core, if it has one. Every log of the core goes there too, and what goes wrong there poisons the
// core.
#pragma once

#include <memory>
#include <optional>

#include "../base/condition.h"
#include "mirror.h"

namespace blockstep {

class Mirrored {
 public:
  /// Without a mirror every call but append() does nothing; append() is not called then.
  Mirrored(Condition& condition, std::unique_ptr<Mirror> mirror) : condition_(condition), mirror_(std::move(mirror)) {}

  /// Null: there is only the host.
  Mirror* mirror() const { return mirror_.get(); }

  /// A log that the host has just applied, how many blocks it took, and the rolling digest behind it.
  void append(const u32* log, u32 words, u32 taken, u64 rolling_digest);
  /// Gives the device what waits, behind and before the work of a stream.
  void submit(std::optional<u64> stream);
  /// Takes what has come. Says whether all that was submitted has.
  bool poll();
  /// @throws Error kLimit if a digest is under way
  void start_digest(const State& state);
  /// The digest that was asked for last, once the device has confirmed it; without a mirror, the host's.
  std::optional<u64> digest(const State& state);

 private:
  Condition& condition_;
  std::unique_ptr<Mirror> mirror_;
};

}  // namespace blockstep
