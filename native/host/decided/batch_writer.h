// BatchWriter: builds a batch for decide(), and computes the maximum length of the log of its
// decision. The sections may be written in any order.
#pragma once

#include <vector>

#include "../../core/decide/batch.h"

namespace blockstep {

/// The fields of BatchHeader that apply to all admissions of a batch.
struct BatchLimits {
  u32 flags;
  u32 token_budget;
  u32 request_budget;
  u32 block_size;
  u32 prefill_limit;
  u32 lookahead;
  u32 slot_limit;
  u32 draft_slots = 0;
  u32 padding = 0;
  u32 model_limit = 0;
  u32 spare_blocks = 0;
  u32 kept_blocks = 0;
};

class BatchWriter {
 public:
  /// Begins an empty batch.
  void clear() {
    for (std::vector<u32>* section : {&facts_, &running_, &publications_, &rows_, &admissions_}) section->clear();
    num_running_ = num_publications_ = num_admissions_ = 0;
    max_log_ = 2;
  }

  /// Adds commands that are applied before the decision.
  void facts(const u32* log, u32 words) { facts_.insert(facts_.end(), log, log + words); }
  /// The words of these commands, for callers that append to them.
  std::vector<u32>& facts() { return facts_; }

  /// Adds the next running entry, which takes `num_new` blocks.
  void run(u32 row, u32 num_new) {
    running_.insert(running_.end(), {row, num_new, num_publications_});
    num_running_ += 1;
    max_log_ += 2;
  }

  /// Adds the publication of a block that the last running entry fills.
  void publication(u32 row, u32 index, const Key& key) {
    publications_.insert(publications_.end(), {row, index, 0, 0, 0, 0});
    put_key(&publications_.back() - 3, key);
    num_publications_ += 1;
    max_log_ += kPublishWords;
    running_.back() = num_publications_;
  }

  /// Adds the next free row.
  void free_row(u32 row) { rows_.push_back(row); }

  /// Adds the next admission, with the keys of its full blocks.
  void admission(const Admission& admission, const Key* keys) {
    const u32* record = reinterpret_cast<const u32*>(&admission);
    admissions_.insert(admissions_.end(), record, record + kWordsOf<Admission>);
    const std::size_t at = admissions_.size();
    admissions_.resize(at + std::size_t{4} * admission.num_keys);
    for (u32 i = 0; i < admission.num_keys; ++i) put_key(&admissions_[at + std::size_t{4} * i], keys[i]);
    num_admissions_ += 1;
    // Open with its row, Extend with a pair, and Publish. A key is looked up, published, or both.
    max_log_ += 2 + 3 + 1 + (1 + kPublishWords) * u64{admission.num_keys};
  }

  /// The words of the batch. They are valid until clear() or the next words().
  const std::vector<u32>& words(const BatchLimits& limits) {
    words_.resize(kWordsOf<BatchHeader>);
    for (const std::vector<u32>* section : {&facts_, &running_, &publications_, &rows_, &admissions_}) {
      words_.insert(words_.end(), section->begin(), section->end());
    }
    record_at<BatchHeader>(words_.data()) = {
        kBatchVersion,       static_cast<u32>(words_.size()),
        static_cast<u32>(facts_.size()), num_running_,
        num_publications_,   static_cast<u32>(rows_.size()),
        num_admissions_,     limits.flags,
        limits.token_budget, limits.request_budget,
        limits.block_size,   limits.prefill_limit,
        limits.lookahead,    limits.slot_limit,
        limits.draft_slots,  limits.padding,
        limits.model_limit,  limits.spare_blocks,
        limits.kept_blocks,  0};
    return words_;
  }

  /// Current number of words of the batch.
  u64 size() const {
    return kWordsOf<BatchHeader> + u64{facts_.size()} + running_.size() + publications_.size() + rows_.size() +
           admissions_.size();
  }
  u32 num_running() const { return num_running_; }
  u32 num_admissions() const { return num_admissions_; }
  /// The maximum number of words of the decision's log.
  u64 max_log() const { return max_log_; }

 private:
  std::vector<u32> facts_, running_, publications_, rows_, admissions_, words_;
  u32 num_running_ = 0;
  u32 num_publications_ = 0;
  u32 num_admissions_ = 0;
  u64 max_log_ = 2;  // the heads of the running entries' Extend and Publish
};

}  // namespace blockstep
