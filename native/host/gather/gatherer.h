// The gathers of one set of tables on a device: messages, the slots that long ones lie in, and how many came back.
//
// A gather must run behind the log of its step. A device that keeps up has been given that log by then, and nothing
// waits: the log and the gather of a step need one place each, there is one place more than steps can be in flight, and
// the places of a step are back when the step is. Only these can be in the way:
//  - logs of plans that compute nothing, such as those that give back the blocks of aborted requests: nobody updates
//    such a plan, so that while a long step runs more than max_logs of them can be on their way;
//  - a step's log that is given in several: longer than a slot, of more blocks than the pool has, or cut by a digest;
//  - more than `slots` long messages on their way, which needs a caller who gathers without executing.
// Then a gather waits, which is counted: until the device has been given the log, that is until the oldest steps on the
// device are done. A device that has not got there after `patience` is given up.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "../device/device_tables.h"
#include "../../base/error.h"

namespace blockstep {

struct GatherLimits {
  u32 slots;  // long messages that may be on their way
  std::chrono::milliseconds patience = std::chrono::seconds(60);
};

class Gatherer {
 public:
  /// Makes the tables on the device. @throws Error kNoMemory, kCuda; std::bad_alloc
  Gatherer(Device& device, const TablesShape& shape, u32 block_size, const GatherLimits& limits);
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  /// Begins a message of so many entries, each of `uniform` tokens; 0: not all of them have as many.
  void begin(u32 num_entries, u32 uniform);
  /// Adds the next entry: `scheduled` tokens behind `computed` ones, in a row of `num_blocks` blocks. The first
  /// `num_known` of the scheduled tokens are known.
  void add(u32 row, u32 computed, u32 scheduled, u32 num_blocks, const std::int32_t* known, u32 num_known);
  /// Gives the device the message, once `give_logs` says that it was given the logs before. With a stream: behind what
  /// is queued there, and before what will be. @throws Error kCuda, kMirror: device and host are no longer in step
  void launch(std::optional<u64> stream, const std::function<bool()>& give_logs);

  DeviceTables& tables() { return tables_; }
  const TablesShape& shape() const { return shape_; }
  /// Gathers given to the device, ever.
  u64 given() const { return given_; }
  /// Gathers that are done, ever. A completion has the lowest 32 bits of that count; fewer than 2^32 gathers are on
  /// their way.
  u64 done() const {
    const u64 number = tables_.completion().word.load(std::memory_order_acquire) >> 32;
    return given_ - static_cast<u32>(given_ - number);
  }
  /// Gathers that had to wait for the device, ever.
  u64 waits() const { return waits_; }

 private:
  bool slot_is_free() const;
  template <class Ready>
  void wait_until(const char* what, const Ready& ready);

  Device& device_;
  const TablesShape shape_;
  const GatherLimits limits_;
  DeviceTables& tables_;
  std::vector<u32> words_;  // [max_gather_words] the message
  GatherHead head_{};       // of the message that is being written, or was written last
  u32 entry_ = 0;           // entries written
  u32 longest_ = 0;         // blocks of its longest row
  GatherHead last_{};       // of the gather that was given last
  u32 last_longest_ = 0;
  std::vector<u64> of_slot_;  // [slots] the gather that lies there, by its number; 0: none so far
  u32 next_slot_ = 0;
  u64 given_ = 0;
  u64 waits_ = 0;
};

}  // namespace blockstep
