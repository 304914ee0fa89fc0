#include "completion_ring.h"

#include <algorithm>
#include <numeric>

namespace blockstep {
namespace {

u64 pending(u32 job) { return u64{job} << 32; }

}  // namespace

CompletionRing::CompletionRing(u32 capacity, void* words, u32 max_job)
    : capacity_(capacity), laps_(max_job / capacity), slots_(capacity), free_(capacity) {
  if (!words) {
    memory_ = std::make_unique<Memory>(u64{8} * capacity);
    words = memory_->base();
  }
  words_ = static_cast<std::atomic<u64>*>(words);
  for (u32 i = 0; i < capacity; ++i) new (words_ + i) std::atomic<u64>(0);
  std::iota(free_.begin(), free_.end(), 0u);
  active_.reserve(capacity);
}

u32 CompletionRing::begin(bool owned) {
  if (closed_) throw Error{kDisposed, "the completion queue was disposed, so nobody could drain the job"};
  const u32 held = static_cast<u32>(active_.size());
  if (held == capacity_) return 0;
  const u32 slot = free_[free_head_];
  free_head_ = free_head_ + 1 == capacity_ ? 0 : free_head_ + 1;
  Slot& entry = slots_[slot];
  entry.job = 1 + slot + entry.lap * capacity_;
  entry.lap = entry.lap + 1 == laps_ ? 0 : entry.lap + 1;
  entry.owned = owned;
  entry.abandoned = false;
  if (words_[slot].exchange(pending(entry.job), std::memory_order_release) != 0) ++num_late_;
  active_.push_back(slot);
  return entry.job;
}

bool CompletionRing::post(u32 job, Verdict verdict) {
  u64 awaited = pending(job);
  const u64 word = word_of(job, verdict);
  if (address_of(job)->compare_exchange_strong(awaited, word, std::memory_order_release, std::memory_order_relaxed)) {
    return true;
  }
  num_late_posts_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

CompletionRing::Posted CompletionRing::post_foreign(u32 job, Verdict verdict) {
  if (job == 0 || job > laps_ * capacity_) return Posted::kUnknown;
  const Slot& slot = slots_[slot_of(job)];
  if (slot.job == job) {
    if (slot.owned) return Posted::kOwned;
    return post(job, verdict) ? Posted::kTaken : Posted::kLate;
  }
  if ((job - 1) / capacity_ >= slot.lap) return Posted::kUnknown;
  num_late_posts_.fetch_add(1, std::memory_order_relaxed);
  return Posted::kLate;
}

CompletionRing::Drained CompletionRing::drain(std::int32_t* out, u32 max_pairs) {
  for (Collector* collector : collectors_) collector->collect();
  Drained drained{0, 0, 0};
  std::size_t kept = 0;
  std::size_t at = 0;
  for (; at < active_.size() && drained.pairs < max_pairs; ++at) {
    const u32 slot = active_[at];
    const Slot& entry = slots_[slot];
    const u64 word = words_[slot].load(std::memory_order_acquire);
    const bool ours = word >> 32 == entry.job;
    if (!ours) drained.late += take_late_word(slot);
    if (!ours || static_cast<u32>(word) == 0) {
      active_[kept++] = slot;
      continue;
    }
    if (entry.abandoned) {
      ++drained.after_reset;
      --num_abandoned_;
    } else {
      const u32 verdict = static_cast<u32>(word);
      const bool known = verdict <= static_cast<u32>(Verdict::kCancelled);
      out[2 * drained.pairs] = static_cast<std::int32_t>(entry.job);
      out[2 * drained.pairs + 1] = static_cast<std::int32_t>(known ? verdict : static_cast<u32>(Verdict::kFailed));
      ++drained.pairs;
    }
    release(slot);
  }
  const auto rest = std::copy(active_.begin() + static_cast<std::ptrdiff_t>(at), active_.end(),
                              active_.begin() + static_cast<std::ptrdiff_t>(kept));
  active_.erase(rest, active_.end());
  num_late_ += drained.late;
  return drained;
}

/// Replaces the word of an earlier job, which a device stored plainly into a slot in use, by the
/// pending word. The awaited word may arrive concurrently, so the replacement is a
/// compare-exchange. @returns whether there was such a late word
bool CompletionRing::take_late_word(u32 slot) {
  u64 word = words_[slot].load(std::memory_order_relaxed);
  if (word >> 32 == slots_[slot].job) return false;
  words_[slot].compare_exchange_strong(word, pending(slots_[slot].job), std::memory_order_relaxed);
  return true;
}

/// Frees a slot and sets its word to 0, so that begin() and late() notice a late word.
void CompletionRing::release(u32 slot) {
  words_[slot].exchange(0, std::memory_order_relaxed);
  slots_[slot].job = 0;
  free_[free_tail_] = slot;
  free_tail_ = free_tail_ + 1 == capacity_ ? 0 : free_tail_ + 1;
}

u32 CompletionRing::reset() {
  const u32 count = in_flight();
  for (const u32 slot : active_) slots_[slot].abandoned = true;
  num_abandoned_ += count;
  return count;
}

u64 CompletionRing::late() {
  for (u32 slot = 0; slot < capacity_; ++slot) {
    if (slots_[slot].job == 0 && words_[slot].exchange(0, std::memory_order_relaxed) != 0) ++num_late_;
  }
  return num_late_ + num_late_posts_.load(std::memory_order_relaxed);
}

}  // namespace blockstep
