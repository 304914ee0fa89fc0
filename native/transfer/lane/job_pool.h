// JobPool: owns the job objects of a lane. It finds an active job by its number, and keeps ended
// jobs for reuse.
#pragma once

#include <memory>
#include <vector>

#include "../completion_ring.h"

namespace blockstep {

/// @tparam Job has `number`, which is 0 while the job object is not in use
template <class Job>
class JobPool {
 public:
  /// @throws std::bad_alloc
  explicit JobPool(const CompletionRing& ring) : ring_(ring), by_slot_(ring.capacity()) {}

  /// Returns a job object that is not in use. @throws std::bad_alloc
  Job& take() {
    if (spare_.empty()) {
      // Reserves room for the job here, so that give_back() allocates nothing.
      if (spare_.capacity() == owned_.size()) spare_.reserve(2 * owned_.size() + 8);
      owned_.push_back(std::make_unique<Job>());
      return *owned_.back();
    }
    Job& job = *spare_.back();
    spare_.pop_back();
    return job;
  }
  /// Takes back an ended job.
  void give_back(Job& job) {
    job.number = 0;
    spare_.push_back(&job);
  }

  /// Makes find() find this job by its `number`.
  void enter(Job& job) { by_slot_[ring_.slot_of(job.number)] = &job; }
  /// Returns the job of this number. Null if it has ended, or belongs to another lane.
  Job* find(u32 number) const {
    if (number == 0) return nullptr;
    Job* job = by_slot_[ring_.slot_of(number)];
    return job && job->number == number ? job : nullptr;
  }

 private:
  const CompletionRing& ring_;
  std::vector<std::unique_ptr<Job>> owned_;
  std::vector<Job*> spare_;
  std::vector<Job*> by_slot_;  // by slot of the ring
};

}  // namespace blockstep
