// Decider: sends a batch to the device that decides, and returns its decision.
//
// Only one batch is pending at a time. The host's logs since the last batch wait in the mirror
// (../mirror/mirror.h). They become the facts of the batch, so that a step is one launch. If they
// do not fit into the batch, they go to the device as logs first. The batch is kept here until all
// of them are sent. No call waits for the device: poll() returns the decision once it has arrived.
#pragma once

#include "batch_writer.h"
#include "../device/decision_room.h"
#include "../mirror/mirror.h"

namespace blockstep {

/// A decision that has arrived, as the device wrote it. Valid until the next batch is given.
struct Decision {
  DecisionHeader header;
  const AdmissionAnswer* answers;
  const u32* ids;
  const u32* log;
};

/// The methods throw Error: kMirror if the device's answer cannot be a decision of the batch, or an
/// error of the device. After an error the decider is unusable, and its owner stops calling it.
class Decider {
 public:
  /// The device of the mirror must have been opened to decide.
  Decider(Mirror& mirror, const Config& pool)
      : mirror_(mirror), room_(decision_room(pool)), num_blocks_(pool.num_blocks) {}

  const DecisionRoom& room() const { return room_; }
  /// Number of batches given since the start, indexed by Carrier.
  const u32 (&carried() const)[3] { return carried_; }

  /// Adds the facts to a batch and gives it to the device. Before the call the batch has no facts
  /// and at most room().batch_words words. The writer must stay unchanged until the decision has
  /// arrived. Must not be called while a batch is pending. @throws Error, std::bad_alloc
  void give(BatchWriter& batch, const BatchLimits& limits);

  /// The decision, or nullptr if it has not arrived yet. @throws Error
  const Decision* poll();

 private:
  void launch();
  void read();

  Mirror& mirror_;
  const DecisionRoom room_;
  const u32 num_blocks_;
  const BatchWriter* batch_ = nullptr;      // the pending batch
  const std::vector<u32>* words_ = nullptr;
  bool launched_ = false;
  u32 number_ = 0;  // of the last batch that was launched
  // Next time to check that the device still works.
  std::chrono::steady_clock::time_point next_check_{};
  u32 carried_[3] = {};
  Decision decision_{};
};

}  // namespace blockstep
