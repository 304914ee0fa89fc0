// The completion ring, where transfers report their end. Each transfer gets a slot of the ring when
// it is submitted, and ends by writing one 64-bit word there.
//
// A job is the number of a transfer, from 1. It is 1 + slot + lap * capacity, where the lap counts
// the uses of the slot. Slots are assigned in the order in which they became free. The jobs of the
// first lap are therefore 1, 2, 3. A slow job holds only its own slot, and a slot stays unused for
// as long as possible. Every word names its job. A late or duplicate word is therefore
// distinguishable from the awaited word, until the numbers restart after `max_job` (by default 2^31
// - 1).
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../base/memory.h"

namespace blockstep {

/// The outcome of a transfer: the low half of its word. A low half of 0 means that the transfer has
/// not ended.
enum class Verdict : u32 { kOk = 1, kFailed = 2, kCancelled = 3 };

/// An object that completes jobs only when it is called. For example, a lane of a GPU has no
/// thread, and notes the GPU's progress when it is called.
class Collector {
 public:
  /// Posts the verdicts of the jobs that have ended. The ring's owner calls collect(), which must
  /// call neither join() nor leave().
  virtual void collect() = 0;

 protected:
  ~Collector() = default;
};

/// Slots and words of up to `capacity` concurrent jobs. One thread, the owner, begins and drains
/// jobs. Any thread, or a GPU, completes them.
class CompletionRing {
 public:
  static constexpr u32 kMaxCapacity = 1u << 20;
  static_assert(std::atomic<u64>::is_always_lock_free && sizeof(std::atomic<u64>) == 8, "the word of a GPU");

  /// The result of post_foreign(). kUnknown: no such job was begun. kLate: the job has already
  /// ended. kTaken: the job is completed. kOwned: the job belongs to a lane, and only that lane may
  /// complete it.
  enum class Posted : std::int32_t { kUnknown = -1, kLate = 0, kTaken = 1, kOwned = 2 };

  static constexpr u32 kMaxJob = 0x7fffffff;  // fits an Int32Array

  /// @param capacity maximum number of jobs in flight: 1 .. kMaxCapacity
  /// @param words memory for `capacity` words, aligned to 8 bytes, that outlives the ring; null:
  ///   the ring allocates it
  /// @param max_job the largest job number, at least `capacity`; afterwards the numbers restart
  /// @throws Error kNoMemory, std::bad_alloc
  explicit CompletionRing(u32 capacity, void* words = nullptr, u32 max_job = kMaxJob);
  CompletionRing(const CompletionRing&) = delete;
  CompletionRing& operator=(const CompletionRing&) = delete;

  u32 capacity() const { return capacity_; }

  /// Begins a job and returns its number. Returns 0, and changes nothing, if every slot is held by
  /// an undrained job.
  /// @param owned a lane completes the job, and post_foreign() refuses to
  /// @throws Error kDisposed if the ring was closed; nothing is changed
  u32 begin(bool owned);

  /// The slot of a job, from 0.
  u32 slot_of(u32 job) const { return (job - 1) % capacity_; }
  /// The word that completes a job, and its address. A GPU completes a job by one aligned store of
  /// these 8 bytes with release order.
  static u64 word_of(u32 job, Verdict verdict) { return u64{job} << 32 | static_cast<u32>(verdict); }
  std::atomic<u64>* address_of(u32 job) const { return words_ + slot_of(job); }

  /// Completes a job. Any thread may call it. If the job has already ended, post() counts the word
  /// as late, leaves the slots unchanged and returns false. A plain store would overwrite the word
  /// of a later job.
  bool post(u32 job, Verdict verdict);
  /// Like post(), for any job number from outside. Only the owner calls it.
  Posted post_foreign(u32 job, Verdict verdict);

  /// Makes drain() call collect() of this collector first. A collector must leave() before it is
  /// destroyed.
  /// @throws std::bad_alloc
  void join(Collector& collector) { collectors_.push_back(&collector); }
  void leave(Collector& collector) { std::erase(collectors_, &collector); }

  /// The owner drains no more. From now on begin() throws, but jobs that have begun can still be
  /// completed.
  void close() { closed_ = true; }

  /// The results of one drain().
  struct Drained {
    u32 pairs;        // completions that were written to `out`
    u32 after_reset;  // dropped completions of jobs from before a reset
    u32 late;         // dropped words of earlier jobs in a slot in use
  };
  /// Takes completions, in the order in which their jobs were begun, and writes two numbers each to
  /// `out`: job and verdict. `out` has room for 2 * max_pairs numbers. Further completions stay for
  /// the next call. An unknown verdict counts as kFailed. The call reads one word per job in
  /// flight.
  Drained drain(std::int32_t* out, u32 max_pairs);

  /// Abandons the jobs in flight. An abandoned job keeps its slot until its word arrives, which
  /// drain() then drops.
  /// @returns the number of abandoned jobs
  u32 reset();

  /// Jobs that have begun and were neither drained nor abandoned.
  u32 in_flight() const { return static_cast<u32>(active_.size()) - num_abandoned_; }
  /// Jobs from before a reset whose words were not drained yet.
  u32 abandoned() const { return num_abandoned_; }
  /// Number of late words so far. Reads the words of all free slots.
  u64 late();

 private:
  struct Slot {
    u32 job = 0;  // 0: free
    u32 lap = 0;  // lap of the slot's next job
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
  std::vector<u32> free_;    // free slots, a ring buffer from free_head_ to free_tail_
  u32 free_head_ = 0;
  u32 free_tail_ = 0;
  u32 num_abandoned_ = 0;
  bool closed_ = false;
  u64 num_late_ = 0;                       // late words that the owner found in a slot
  std::atomic<u64> num_late_posts_{0};     // late words that post() or post_foreign() refused
};

}  // namespace blockstep
