// Gatherer: the gathers of one set of tables on a device. It writes their messages, owns the slots of long messages,
// and counts the gathers that are done.
//
// A gather must run after the log of its step. Usually the device has been given that log already and nothing waits: a
// step needs a place for its log and a slot for its gather, there is one of each more than steps can be in flight, and
// both are free again when the step is done. A gather has to wait in these cases only:
//  - Logs of plans that compute nothing, such as those that release the blocks of aborted requests. Such a plan is
//    never updated, so more than max_logs of these logs can be on their way while a long step runs.
//  - The log of a step goes to the device in several parts: it is longer than a slot, takes more blocks than the pool
//    has, or is cut by a digest.
//  - More than `slots` long messages are on their way. This needs a caller that gathers without executing.
// The gather then waits, and the wait is counted, until the device could be given the log, that is until the oldest
// steps on the device are done. After `patience` the wait ends with an error, and the device is given up.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "../device/device_tables.h"
#include "../../base/error.h"

namespace blockstep {

struct GatherLimits {
  u32 slots;  // long messages that may be on their way at once
  std::chrono::milliseconds patience = std::chrono::seconds(60);
};

class Gatherer {
 public:
  /// Makes the tables on the device. @throws Error kNoMemory, kCuda; std::bad_alloc
  Gatherer(Device& device, const TablesShape& shape, u32 block_size, const GatherLimits& limits);
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  /// Begins the message of a gather of `num_entries` entries. `uniform`: tokens of each entry, or 0 if they differ.
  void begin(u32 num_entries, u32 uniform);
  /// Adds the next entry: `scheduled` tokens after `computed` ones, in a row of `num_blocks` blocks. `known` holds the
  /// ids of the first `num_known` scheduled tokens; the others are not known yet.
  void add(u32 row, u32 computed, u32 scheduled, u32 num_blocks, const std::int32_t* known, u32 num_known);
  /// Gives the device the message. First calls `give_logs`, if need be repeatedly, until it returns true: the device
  /// has been given all logs before the gather. With a stream, the gather runs after the work that is queued there now,
  /// and before work that is queued there later. @throws Error kCuda, kMirror: host and device no longer agree
  ///
  /// `join`: has the device given a last log by the function that it gets, if that has at most `room` words, and all logs before
  /// it as usual; returns whether the function was called. Where the device joins a log and a gather, and no stream was named, this
  /// comes first.
  using Join = std::function<bool(u32 room, const std::function<void(Job job, const u32* log, u32 words)>& give)>;
  void launch(std::optional<u64> stream, const std::function<bool()>& give_logs, const Join& join = {});

  DeviceTables& tables() { return tables_; }
  const TablesShape& shape() const { return shape_; }
  /// Gathers given to the device since the start.
  u64 given() const { return given_; }
  /// Gathers done since the start. The completion carries the lowest 32 bits of this count, which is enough because
  /// fewer than 2^32 gathers are on their way.
  u64 done() const {
    const u64 number = tables_.completion().word.load(std::memory_order_acquire) >> 32;
    return given_ - static_cast<u32>(given_ - number);
  }
  /// Waits for the device since the start; a gather may wait for its log and for a slot.
  u64 waits() const { return waits_; }

 private:
  bool slot_is_free() const;
  bool launch_joined(const Join& join, u64 words);
  void note_given();
  template <class Ready>
  void wait_until(const char* what, const Ready& ready);

  Device& device_;
  const TablesShape shape_;
  const GatherLimits limits_;
  DeviceTables& tables_;
  std::vector<u32> words_;  // [max_gather_words] the message
  GatherHead head_{};       // of the message that is being written, or was written last
  u32 entry_ = 0;           // entries written
  u32 longest_ = 0;         // blocks of the longest row in the message
  GatherHead last_{};       // of the gather that was given last
  u32 last_longest_ = 0;
  std::vector<u64> of_slot_;  // [slots] number of the gather whose message lies in the slot; 0: none so far
  u32 next_slot_ = 0;
  u64 given_ = 0;
  u64 waits_ = 0;
};

}  // namespace blockstep
