// The way of a batch to a device that decides, and of the decision back.
//
// One batch is under way at a time. The logs of what the host did since the last batch wait in the mirror
// (../mirror/mirror.h). They become the facts of the batch, so that a step is one launch. Where they do not fit, they go
// ahead as logs, and the batch is kept until the device has been given all of them. Nothing waits: poll() says whether
// the decision has come.
#pragma once

#include "batch_writer.h"
#include "../device/decision_room.h"
#include "../mirror/mirror.h"

namespace blockstep {

/// A decision that has come, as the device wrote it. It stays until the next batch is given.
struct Decision {
  DecisionHeader header;
  const AdmissionAnswer* answers;
  const u32* ids;
  const u32* log;
};

/// Throws Error: kMirror if the device answers what no decision of the batch can be, or what the device throws. It is of
/// no use then, and its owner stops calling it.
class Decider {
 public:
  /// The mirror's device was opened to decide.
  Decider(Mirror& mirror, const Config& pool)
      : mirror_(mirror), room_(decision_room(pool)), num_blocks_(pool.num_blocks) {}

  const DecisionRoom& room() const { return room_; }
  /// Batches given, ever, by Carrier.
  const u32 (&carried() const)[3] { return carried_; }

  /// Gives the device a batch without facts, of at most room().batch_words words, whose writer stays as it is until its
  /// decision has come. Not while one is under way. @throws Error, std::bad_alloc
  void give(BatchWriter& batch, const BatchLimits& limits);

  /// The decision, if it has come. @throws Error
  const Decision* poll();

 private:
  void launch();
  void read();

  Mirror& mirror_;
  const DecisionRoom room_;
  const u32 num_blocks_;
  const BatchWriter* batch_ = nullptr;      // the one under way
  const std::vector<u32>* words_ = nullptr;
  bool launched_ = false;
  u32 number_ = 0;  // of the last batch that was launched
  u32 fruitless_polls_ = 0;
  u32 carried_[3] = {};
  Decision decision_{};
};

}  // namespace blockstep
