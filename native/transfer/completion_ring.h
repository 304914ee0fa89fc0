// The completion ring: where transfers say that they are over. Each transfer writes one 64-bit word, into a slot that the
// host gave it when it was submitted.
//
// A job is a number from 1 that names its slot and the lap of that slot: 1 + slot + lap * capacity. Slots are given
// out in the order in which they became free. So the jobs of the first lap are 1, 2, 3; a slow job holds one slot and
// nothing else; and a slot is used again as late as can be. A word names its job. So a word that comes late or twice is
// told from the awaited one, whenever it comes, until the numbers begin again after 2^31.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../base/memory.h"

namespace blockstep {

/// How a transfer ended. A word of 0 means that it has not.
enum class Verdict : u32 { kOk = 1, kFailed = 2, kCancelled = 3 };

/// Somebody who completes jobs only when asked: a lane of a GPU notes what the GPU has done when it is asked to.
class Collector {
 public:
  /// Posts the jobs that have ended. The ring's owner calls it; it must not join or leave the ring.
  virtual void collect() = 0;

 protected:
  ~Collector() = default;
};

/// One thread, the owner, begins and drains jobs. Any thread, or a GPU, completes them.
class CompletionRing {
 public:
  static constexpr u32 kMaxCapacity = 1u << 20;
  static_assert(std::atomic<u64>::is_always_lock_free && sizeof(std::atomic<u64>) == 8, "the word of a GPU");

  /// What became of a word that somebody outside of this program posted through the owner.
  enum class Posted : std::int32_t { kUnknown = -1, kLate = 0, kTaken = 1, kOwned = 2 };

  static constexpr u32 kMaxJob = 0x7fffffff;  // fits an Int32Array

  /// @param words memory for `capacity` words, aligned to 8, that outlives the ring; null: memory of its own
  /// @param max_job the numbers begin again behind it; at least `capacity`
  /// @throws Error kNoMemory, std::bad_alloc
  explicit CompletionRing(u32 capacity, void* words = nullptr, u32 max_job = kMaxJob);
  CompletionRing(const CompletionRing&) = delete;
  CompletionRing& operator=(const CompletionRing&) = delete;

  u32 capacity() const { return capacity_; }

  /// Gives a transfer its job. Returns 0, and changes nothing, if every slot is held by a job that was not drained yet.
  /// @param owned a lane completes it, and post_foreign() must not
  /// @throws Error kDisposed if it was closed; nothing is changed
  u32 begin(bool owned);

  /// The slot of a job, from 0.
  u32 slot_of(u32 job) const { return (job - 1) % capacity_; }
  /// The word that completes a job, and the address where a GPU stores it: one aligned store of 8 bytes with release.
  static u64 word_of(u32 job, Verdict verdict) { return u64{job} << 32 | static_cast<u32>(verdict); }
  std::atomic<u64>* address_of(u32 job) const { return words_ + slot_of(job); }

  /// Completes a job. Any thread may call it. If the job is over already, however long ago, the ring is not changed, the
  /// word is counted as late, and the answer is false. A plain store would not be so careful.
  bool post(u32 job, Verdict verdict);
  /// As post(), called by the owner for a job that somebody outside of this program completes.
  Posted post_foreign(u32 job, Verdict verdict);

  /// From now on drain() asks this collector first. The collector leaves before it ends. @throws std::bad_alloc
  void join(Collector& collector) { collectors_.push_back(&collector); }
  void leave(Collector& collector) { std::erase(collectors_, &collector); }

  /// The owner will not drain any more. No job begins from now on; jobs that have begun are completed all the same.
  void close() { closed_ = true; }

  /// What one drain() found.
  struct Drained {
    u32 pairs;        // completions that were written out
    u32 after_reset;  // of jobs from before a reset: dropped
    u32 late;         // words of earlier jobs: dropped
  };
  /// Takes completions, in the order in which their jobs were begun, two words each: job and verdict. Completions beyond
  /// `max_pairs` stay for the next call. Costs a look at one word for each job in flight.
  Drained drain(std::int32_t* out, u32 max_pairs);

  /// Abandons the jobs in flight. Each keeps its slot until its word comes, and that word is dropped.
  /// @returns how many jobs were abandoned
  u32 reset();

  u32 in_flight() const { return static_cast<u32>(active_.size()) - num_abandoned_; }
  /// Jobs from before a reset whose words have not come.
  u32 abandoned() const { return num_abandoned_; }
  /// How many late words have come so far. Looks at every slot.
  u64 late();

 private:
  struct Slot {
    u32 job = 0;  // 0: free
    u32 lap = 0;  // of its next job
    bool owned = false;
    bool abandoned = false;
  };

  bool take_late_word(u32 slot);
  void release(u32 slot);

  u32 capacity_;
  u32 laps_;
  std::unique_ptr<Memory> memory_;
  std::atomic<u64>* words_;
  std::vector<Slot> slots_;
  std::vector<Collector*> collectors_;
  std::vector<u32> active_;  // slots in flight, in the order of begin()
  std::vector<u32> free_;    // a ring
  u32 free_head_ = 0;
  u32 free_tail_ = 0;
  u32 num_abandoned_ = 0;
  bool closed_ = false;
  u64 num_late_ = 0;                       // late words that the owner found
  std::atomic<u64> num_late_posts_{0};     // late words that a completer was told of
};

}  // namespace blockstep
