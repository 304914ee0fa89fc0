#include "decider.h"

#include <algorithm>

namespace blockstep {

void Decider::give(BatchWriter& batch, const BatchLimits& limits) {
  const bool alone = mirror_.hand_over(room_.batch_words - batch.size(), batch.facts());
  batch_ = &batch;
  words_ = &batch.words(limits);
  launched_ = false;
  next_check_ = std::chrono::steady_clock::now() + kCheckInterval;
  if (alone) launch();
}

void Decider::launch() {
  const auto words = static_cast<u32>(words_->size());
  const Carrier carrier = carrier_of(words);
  Device& device = mirror_.device();
  number_ += 1;
  if (carrier == Carrier::kSlot) {
    std::copy(words_->begin(), words_->end(), device.batch());
    device.decide_slot(number_, words);
  } else {
    device.decide_value(number_, carrier, words_->data(), words);
  }
  launched_ = true;
  carried_[static_cast<u32>(carrier)] += 1;
}

const Decision* Decider::poll() {
  mirror_.poll();
  if (!launched_) {
    if (mirror_.all_given()) launch();
    return nullptr;
  }
  Device& device = mirror_.device();
  const u64 word = device.decision_completion().word.load(std::memory_order_acquire);
  if (word >> 32 == number_ - 1) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_check_) return nullptr;
    next_check_ = now + kCheckInterval;
    device.check();
    return nullptr;
  }
  const auto batch = [&] { return "batch " + std::to_string(number_); };
  if (word >> 32 != number_) {
    throw Error{kMirror, "the completion of " + batch() + " is that of batch " + std::to_string(word >> 32)};
  }
  if (const u32 fault = static_cast<u32>(word)) {
    throw Error{kMirror, "the device refused " + batch() + ": " + describe(fault)};
  }
  read();
  return &decision_;
}

/// Reads a decision that has arrived. It checks the numbers of the decision, so that no memory
/// outside of it is read.
void Decider::read() {
  const u32* words = mirror_.device().decision();
  decision_.header = record_at<DecisionHeader>(words);
  const DecisionHeader& header = decision_.header;
  const u32 running = batch_->num_running();
  const bool ran = header.num_run == running;
  const bool numbers = header.version == kDecisionVersion && header.fault == kNoFault && header.stop <= kStopHits &&
                       header.num_run <= running && ran == (header.stop != kStopRunning) &&
                       header.num_answers <= (ran ? batch_->num_admissions() : 0) &&
                       // Wraps if more were admitted.
                       header.num_answers - header.num_admitted <= 1 &&
                       (!ran || (header.stop == kNotStopped) == (header.num_admitted == batch_->num_admissions())) &&
                       header.num_ids <= num_blocks_ && header.log_words <= room_.max_log;
  if (!numbers || header.words != decision_words(header.num_answers, header.num_ids, header.log_words)) {
    throw Error{kMirror, "the decision of batch " + std::to_string(number_) + " makes no sense: version " +
                             std::to_string(header.version) + ", " + std::to_string(header.words) + " words, stop " +
                             std::to_string(header.stop) + ", " + std::to_string(header.num_run) + " entries, " +
                             std::to_string(header.num_admitted) + " of " + std::to_string(header.num_answers) +
                             " admissions, " + std::to_string(header.num_ids) + " blocks"};
  }
  decision_.answers = reinterpret_cast<const AdmissionAnswer*>(words + kWordsOf<DecisionHeader>);
  decision_.ids = words + kWordsOf<DecisionHeader> + header.num_answers * kWordsOf<AdmissionAnswer>;
  decision_.log = decision_.ids + header.num_ids;
}

}  // namespace blockstep
