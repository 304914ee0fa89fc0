// What every lane promises, whoever copies.
#pragma once

#include "copy_plan.h"

namespace blockstep {

/// An ordered stream of copies in one direction, from one arena to another.
///
/// Runs of blocks that are consecutive on both sides are copied as one. A job is cut into pieces at block boundaries, and
/// its word is posted once, when no piece of it is being copied and none will be.
///
/// Order: a job is over before the next one begins. Jobs begin in the order in which they were submitted, except that a
/// job which waits for a step is overtaken. Jobs that become ready together begin in the order of their steps, then in
/// the order of their submission.
///
/// One thread, the owner, calls all methods. Only submit() allocates, before it changes anything.
class Lane {
 public:
  /// The step of a job that waits for none.
  static constexpr std::int64_t kNoFence = -1;

  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  /// Ends every job as cancel() does. When it returns, nothing of the lane writes any more.
  virtual ~Lane() = default;

  /// Has block sources.ids[i] copied to targets.ids[i], once step `not_before` is settled. A job without blocks copies
  /// nothing, but has its place in the order.
  /// @returns the job @throws Error kBadArg, kRingFull, kDisposed if the ring was closed, std::bad_alloc; and nothing
  /// is changed
  virtual u32 submit(BlockList sources, BlockList targets, std::int64_t not_before) = 0;
  /// Every step up to this one has been executed.
  virtual void settle(std::int64_t step) = 0;
  /// Ends a job: at once if it has not begun, otherwise after the pieces that are being copied. Its verdict is
  /// kCancelled if any piece of it was not copied. @returns false if the job is over already, or is not of this lane
  virtual bool cancel(u32 job) = 0;
  /// Waits until these jobs are over. Jobs that are not of this lane count as over.
  /// @throws Error kBadArg if one waits for a step that was not settled, which nobody could settle meanwhile
  virtual void flush(BlockList jobs) = 0;
  /// Cancels what has not begun and waits for what has: nothing that was submitted before writes or reads after this.
  virtual void fence() = 0;

  /// How many jobs are not over.
  virtual u32 pending() = 0;
  /// How many of the pending jobs wait for a step.
  virtual u32 waiting() = 0;
  /// What was copied so far, and in how many stretches of consecutive memory.
  struct Traffic {
    u64 bytes = 0;
    u64 copies = 0;
  };
  virtual Traffic traffic() = 0;
};

}  // namespace blockstep
