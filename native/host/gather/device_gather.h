// The tables of a core on the device of its mirror, and the gather there: one set of tables for all frames, which the
// device fills out of its own rows.
#pragma once

#include <memory>
#include <optional>

#include "../mirror/mirrored.h"
#include "../requests/slots.h"
#include "gatherer.h"

namespace blockstep {

class DeviceGather {
 public:
  DeviceGather(const HostConfig& config, Condition& condition, Mirrored& mirrored, const Slots& slots)
      : config_(config), condition_(condition), mirrored_(mirrored), table_(slots.table()) {}

  /// Makes the tables, at the first call. @throws Error kCuda without a device, kNoMemory; kBadArg if there are some of
  /// another size
  const blockstep_tables& make(u32 max_tokens);
  /// @throws Error kBadArg if there are no tables on a device
  Gatherer& gatherer() const;
  /// Has the device fill its tables with the frame's first `num_entries` entries, behind all logs so far. With a
  /// stream: behind what is queued there now, and before what will be. Waits for nothing but what gatherer.h names.
  /// @throws Error kBadArg, kBadSlot, kNoRow; kCuda, kMirror
  void gather(const Frame& frame, u32 num_entries, std::optional<u64> stream);
  /// For tests and for debugging: waits for the device, and copies an array of the tables. @throws Error kBadArg, kCuda
  void read(Table which, void* out);

 private:
  const HostConfig& config_;
  Condition& condition_;
  Mirrored& mirrored_;
  const RequestTable& table_;
  std::unique_ptr<Gatherer> gatherer_;  // null: the device has no tables. It uses the device
};

}  // namespace blockstep
