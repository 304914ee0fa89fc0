// Decider: brings a batch to the device that decides, and the decision back.
//
// One batch is under way at a time. The host's logs since the last batch wait in the mirror (../mirror/mirror.h). They
// become the facts of the batch, so that a step is one launch. If they do not fit into the batch, they go to the device
// as logs first, and the batch is kept here until the device has been given all of them. No call waits for the device:
// poll() returns the decision once it has come.
#pragma once

#include "batch_writer.h"
#include "../device/decision_room.h"
#include "../mirror/mirror.h"

namespace blockstep {

/// A decision that has come, as the device wrote it. Valid until the next batch is given.
struct Decision {
  DecisionHeader header;
  const AdmissionAnswer* answers;
  const u32* ids;
  const u32* log;
};

/// The methods throw Error: kMirror if the device's answer cannot be a decision of the batch, or an error of the
/// device. After an error the decider cannot be used any more, and its owner stops calling it.
class Decider {
 public:
  /// The device of the mirror must have been opened to decide.
  Decider(Mirror& mirror, const Config& pool)
      : mirror_(mirror), room_(decision_room(pool)), num_blocks_(pool.num_blocks) {}

  const DecisionRoom& room() const { return room_; }
  /// Batches given since the start, indexed by Carrier.
  const u32 (&carried() const)[3] { return carried_; }

  /// Gives the device a batch, to which this adds the facts. Before that the batch has no facts and at most
  /// room().batch_words words. The writer must stay unchanged until the decision has come. Must not be called while a
  /// batch is under way. @throws Error, std::bad_alloc
  void give(BatchWriter& batch, const BatchLimits& limits);

  /// The decision, or nullptr if it has not come yet. @throws Error
  const Decision* poll();

 private:
  void launch();
  void read();

  Mirror& mirror_;
  const DecisionRoom room_;
  const u32 num_blocks_;
  const BatchWriter* batch_ = nullptr;      // the batch under way
  const std::vector<u32>* words_ = nullptr;
  bool launched_ = false;
  u32 number_ = 0;  // of the last batch that was launched
  std::chrono::steady_clock::time_point next_check_{};  // when the device is asked whether it still works
  u32 carried_[3] = {};
  Decision decision_{};
};

}  // namespace blockstep
