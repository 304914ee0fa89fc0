// Lane: the interface and guarantees of every lane, on the host and on a GPU.
#pragma once

#include "copy_plan.h"

namespace blockstep {

/// An ordered stream of copies in one direction, from one arena to another.
///
/// A job is one submit(): a list of block copies. Blocks that are consecutive on both sides are
/// copied together. A job is cut into pieces at block boundaries. The job's word is posted to the
/// completion ring once, when no piece of the job is being copied and none will be.
///
/// Order: a job ends before the next job begins. Jobs begin in the order of their submission,
/// except that later jobs overtake a job which waits for a step. Jobs that become ready together
/// begin in the order of their steps, then in the order of their submission.
///
/// One thread, the owner, calls all methods. Only submit() allocates, before it changes anything.
class Lane {
 public:
  /// `not_before` of a job that waits for no step.
  static constexpr std::int64_t kNoFence = -1;

  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  /// Ends every job like cancel(). After the destructor has returned, the lane accesses no arena.
  virtual ~Lane() = default;

  /// Submits a job: copies block sources.ids[i] to targets.ids[i], once step `not_before` is
  /// settled. A job without blocks copies nothing, but has its place in the order.
  /// @returns the number of the job, which determines its slot of the ring
  /// @throws Error kBadArg, kRingFull, kDisposed if the ring was closed, std::bad_alloc; nothing is
  /// changed
  virtual u32 submit(BlockList sources, BlockList targets, std::int64_t not_before) = 0;
  /// Tells the lane that every step up to `step` was executed. Jobs that waited for these steps
  /// become ready.
  virtual void settle(std::int64_t step) = 0;
  /// Ends a job. It ends at once if it has not begun, otherwise after the pieces that are being
  /// copied. The verdict is kCancelled if any piece of the job was not copied.
  /// @returns false if the job has already ended, or belongs to another lane
  virtual bool cancel(u32 job) = 0;
  /// Waits for the end of these jobs. Jobs of other lanes count as ended.
  /// @throws Error kBadArg if a job waits for an unsettled step, which cannot be settled during the
  /// call
  virtual void flush(BlockList jobs) = 0;
  /// Cancels the jobs that have not begun, and waits for the others. When fence() returns, no
  /// earlier job accesses an arena any more.
  virtual void fence() = 0;

  /// Number of jobs that have not ended.
  virtual u32 pending() = 0;
  /// Number of pending jobs that wait for a step.
  virtual u32 waiting() = 0;
  /// Number of bytes and runs copied so far.
  struct Traffic {
    u64 bytes = 0;
    u64 copies = 0;
  };
  virtual Traffic traffic() = 0;
};

}  // namespace blockstep
