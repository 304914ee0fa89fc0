// DeviceGather: the tables of a core on the device of its mirror. All frames share one set of
// tables, which the device fills from the rows of its own state.
#pragma once

#include <memory>
#include <optional>

#include "../mirror/mirrored.h"
#include "../requests/slots.h"
#include "gatherer.h"

namespace blockstep {

class DeviceGather {
 public:
  DeviceGather(const HostConfig& config, Condition& condition, Mirrored& mirrored, const FactLog& facts, const Slots& slots)
      : config_(config), condition_(condition), mirrored_(mirrored), state_(facts.state()), table_(slots.table()) {}

  /// Makes the tables at the first call, with room for `max_tokens` tokens. Later calls return the
  /// same tables. @throws Error kCuda without a device, kNoMemory; kBadArg if the tables exist with
  /// another max_tokens
  const blockstep_tables& make(u32 max_tokens);
  /// Whether a log may wait for the gather of its step, to go to the device with it.
  bool joins() const { return gatherer_ && mirrored_.mirror()->device().joins(); }
  /// The gatherer of the tables. @throws Error kBadArg before make()
  Gatherer& gatherer() const;
  /// Makes the device fill its tables with the frame's first `num_entries` entries, after all logs
  /// so far. With a stream, the gather runs after the work that is queued there now, and before
  /// work that is queued there later. Returns without waiting for the device, except in the cases
  /// that gatherer.h lists.
  /// @throws Error kBadArg, kBadSlot, kNoRow; kCuda, kMirror
  void gather(const Frame& frame, u32 num_entries, std::optional<u64> stream);
  /// Copies one array of the tables to `out`, for tests and debugging. Waits for the device.
  /// @throws Error kBadArg, kCuda
  void read(Table which, void* out);

 private:
  u32 longest_row(const Slot& slot) const;

  const HostConfig& config_;
  Condition& condition_;
  Mirrored& mirrored_;
  const State& state_;  // the host's
  const RequestTable& table_;
  std::unique_ptr<Gatherer> gatherer_;  // null before make(); uses the mirror's device
};

}  // namespace blockstep
