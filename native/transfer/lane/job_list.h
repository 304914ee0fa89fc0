// JobList: an ordered, doubly linked list of the jobs of a lane. A job is in at most one list.
#pragma once

#include "../../core/base/types.h"

namespace blockstep {

/// @tparam Job has `prev`, `next`, `list` (the list that contains it) and `not_before` (the step
/// that it waits for)
template <class Job>
struct JobList {
  Job* first = nullptr;
  Job* last = nullptr;
  u32 size = 0;

  void append(Job& job) { insert_behind(last, job); }

  /// Inserts a job after all jobs of earlier steps and of the same step.
  void insert_by_step(Job& job) {
    Job* prev = last;
    while (prev && prev->not_before > job.not_before) prev = prev->prev;
    insert_behind(prev, job);
  }

  void remove(Job& job) {
    (job.prev ? job.prev->next : first) = job.next;
    (job.next ? job.next->prev : last) = job.prev;
    job.prev = job.next = nullptr;
    job.list = nullptr;
    --size;
  }

 private:
  void insert_behind(Job* prev, Job& job) {
    job.list = this;
    job.prev = prev;
    job.next = prev ? prev->next : first;
    (job.prev ? job.prev->next : first) = &job;
    (job.next ? job.next->prev : last) = &job;
    ++size;
  }
};

}  // namespace blockstep
