// Mirrored: the mirror of one core, if it has a mirror. Every log of the core goes to the mirror,
// and an error of the mirror poisons the core.
#pragma once

#include <memory>
#include <optional>

#include "../base/condition.h"
#include "mirror.h"

namespace blockstep {

class Mirrored {
 public:
  /// `mirror` may be null. Then append() must not be called, submit() and start_digest() do
  /// nothing, poll() returns true, and digest() is the host's digest.
  Mirrored(Condition& condition, std::unique_ptr<Mirror> mirror) : condition_(condition), mirror_(std::move(mirror)) {}

  /// Null if the core has no mirror.
  Mirror* mirror() const { return mirror_.get(); }

  /// Passes on a log that the host has just applied, the number of blocks it took, and the rolling
  /// digest after it.
  void append(const u32* log, u32 words, u32 taken, u64 rolling_digest);
  /// Sends the waiting logs to the device, ordered with the work of `stream` as in
  /// Mirror::submit(), or holds them for a gather. The stream must have passed admit().
  void submit(std::optional<u64> stream, bool holds = false);
  /// @throws Error kBadArg for a stream that is capturing a graph; changes nothing
  void admit(std::optional<u64> stream);
  /// Takes the completions that have arrived. Returns whether the mirror is idle().
  bool poll();
  /// Asks the device for the digest of its state. @throws Error kLimit if a digest is already
  /// pending
  void start_digest(const State& state);
  /// The last requested digest, once the device has confirmed it. Without a mirror, the digest of
  /// the host.
  std::optional<u64> digest(const State& state);

 private:
  Condition& condition_;
  std::unique_ptr<Mirror> mirror_;
};

}  // namespace blockstep
