// Gatherer: the gathers of one set of tables on a device. It writes their messages, owns the slots
// of long messages, and counts the completed gathers.
//
// A gather must run after the log of its step. Usually the device already has that log and there is
// no wait. A step needs a place for its log and a slot for its gather. There is one more of each
// than steps in flight, and both are free again when the step is done. A gather waits only in these
// cases:
// - Logs of plans that compute nothing, for example plans that release the blocks of aborted
//   requests. Such a plan is never updated, so more than max_logs of these logs can be outstanding
//   during a long step.
// - The log of a step goes to the device in several parts: it is longer than a slot, takes more
//   blocks than the pool has, or is cut by a digest.
// - More than `slots` long messages are outstanding. This needs a caller that gathers without
//   executing.
// The gather then waits until the device can take the log, and the wait is counted. The device can
// take it when its oldest steps are done. After `patience` the wait ends with an error, and the
// device is given up.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "../device/device_tables.h"
#include "../../base/error.h"

namespace blockstep {

struct GatherLimits {
  u32 slots;  // long messages that may be outstanding at once
  std::chrono::milliseconds patience = std::chrono::seconds(60);
};

class Gatherer {
 public:
  /// Makes the tables on the device. @throws Error kNoMemory, kCuda; std::bad_alloc
  Gatherer(Device& device, const TablesShape& shape, u32 block_size, const GatherLimits& limits);
  Gatherer(const Gatherer&) = delete;
  Gatherer& operator=(const Gatherer&) = delete;

  /// Begins the message of a gather of `num_entries` entries. `uniform`: tokens of each entry, or 0
  /// if they differ.
  void begin(u32 num_entries, u32 uniform);
  /// Adds the next entry: `scheduled` tokens after `computed` tokens, in a row of `num_blocks`
  /// blocks. `known` holds the ids of the first `num_known` scheduled tokens. The others are not
  /// known yet.
  void add(u32 row, u32 computed, u32 scheduled, u32 num_blocks, const std::int32_t* known, u32 num_known);
  /// Gives the device the message. Before that, calls `give_logs` until it returns true, which
  /// means that the device has all logs before the gather. With a stream, the gather runs after the
  /// work that is queued there now, and before work that is queued there later. @throws Error
  /// kCuda, kMirror: host and device may disagree
  ///
  /// `join` is called first if the device can join a log and a gather, and no stream was given. It
  /// gives all earlier logs as usual. If the last log has at most `room` words, it passes that log
  /// to the function that it gets. It returns whether it called the function.
  using Join = std::function<bool(u32 room, const std::function<void(Job job, const u32* log, u32 words)>& give)>;
  void launch(std::optional<u64> stream, const std::function<bool()>& give_logs, const Join& join = {});

  DeviceTables& tables() { return tables_; }
  const TablesShape& shape() const { return shape_; }
  /// Number of gathers given to the device since the start.
  u64 given() const { return given_; }
  /// Number of completed gathers since the start. The completion holds the lowest 32 bits of this
  /// count, which suffice because fewer than 2^32 gathers are outstanding.
  u64 done() const {
    const u64 number = tables_.completion().word.load(std::memory_order_acquire) >> 32;
    return given_ - static_cast<u32>(given_ - number);
  }
  /// Number of waits for the device since the start. A gather may wait for its log and for a slot.
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
  GatherHead head_{};       // of the current or last message
  u32 entry_ = 0;           // number of entries written
  u32 longest_ = 0;         // blocks of the longest row in the message
  GatherHead last_{};       // of the last gather that was given
  u32 last_longest_ = 0;
  // [slots] number of the gather whose message lies in the slot; 0: none so far.
  std::vector<u64> of_slot_;
  u32 next_slot_ = 0;
  u64 given_ = 0;
  u64 waits_ = 0;
};

}  // namespace blockstep
