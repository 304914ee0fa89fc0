// An ordered stream of copies in one direction, by threads of its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "block_arena.h"
#include "completion_ring.h"

namespace blockstep {

/// Elements that someone else owns, of an array that Node-API or a test has.
struct BlockList {
  const std::int32_t* ids;
  u32 count;
};

/// Copies blocks from one arena to another.
///
/// Runs of blocks that are consecutive on both sides are copied as one. A job is cut into pieces at block boundaries, and
/// its word is posted once, when no piece of it is being copied and none will be.
///
/// Order: a job is over before the next one begins, however many threads share its pieces. They begin in the order in
/// which they were submitted, but for those that wait for a step, which others overtake; those that become ready together
/// begin in the order of their steps, then of submission.
///
/// All methods are for one thread, the owner. Nothing here allocates but submit(), before it changes anything.
class HostLane {
 public:
  /// No step: the job waits for none.
  static constexpr std::int64_t kNoFence = -1;
  static constexpr u32 kMaxThreads = 16;

  struct Options {
    u32 threads;      // 1 .. kMaxThreads
    u64 piece_bytes;  // at most so many a piece, but one block at least
  };

  /// @throws Error kBadArg for arenas that do not go together, kLimit if a thread cannot be started; std::bad_alloc
  HostLane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target,
           Options options);
  HostLane(const HostLane&) = delete;
  HostLane& operator=(const HostLane&) = delete;
  /// As fence(), but jobs that have begun stop after the piece at hand. Nothing writes any more when it returns.
  ~HostLane();

  /// Has block sources.ids[i] copied to targets.ids[i], once `not_before` is settled.
  /// @returns the job @throws Error kBadArg, kRingFull, std::bad_alloc; and nothing is changed
  u32 submit(BlockList sources, BlockList targets, std::int64_t not_before);
  /// Every step up to this one has been executed.
  void settle(std::int64_t step);
  /// Ends a job: at once if it has not begun, otherwise after the pieces at hand. It is `cancelled` if any piece of it
  /// was not copied. @returns false if it is over already, or none of this lane's
  bool cancel(u32 job);
  /// Waits until these jobs are over; those that are not this lane's are.
  /// @throws Error kBadArg if one waits for a step that was not settled, which nobody could settle meanwhile
  void flush(BlockList jobs);
  /// Cancels what has not begun and waits for what has: nothing that was submitted before writes or reads after this.
  void fence();

  /// Jobs that are not over.
  u32 pending() const;
  /// Those of them that wait for a step.
  u32 waiting() const;
  /// What was copied so far, in so many pieces of consecutive memory.
  struct Traffic {
    u64 bytes = 0;
    u64 copies = 0;
  };
  Traffic traffic() const;

 private:
  struct List;
  /// Blocks that are consecutive on both sides.
  struct Run {
    u32 source;
    u32 target;
    u32 count;
  };
  struct Job {
    Job* prev = nullptr;
    Job* next = nullptr;
    List* list = nullptr;  // ready_ until it is over, or waiting_
    u32 number = 0;
    u32 active = 0;        // pieces that are being copied
    u32 next_piece = 0;
    bool cancelled = false;
    std::int64_t not_before = kNoFence;
    std::vector<Run> runs;
    std::vector<u32> piece_ends;  // index behind the last run of each piece
  };
  struct List {
    Job* first = nullptr;
    Job* last = nullptr;
    u32 size = 0;
    void insert_behind(Job* prev, Job& job);
    void remove(Job& job);
  };

  void start_threads(u32 count);
  void stop();
  void work();
  u64 copy(const Job& job, u32 piece);
  void end(Job& job);
  void wake(const Job& job);
  Job* next_job() const;
  void drop(Job& job);
  void drop_if(bool begun_too);
  void make_ready(Job& job);
  void check_blocks(BlockList sources, BlockList targets);
  Job& prepare(BlockList sources, BlockList targets);
  Job* take_spare();
  Job* find(u32 job) const;

  const std::shared_ptr<CompletionRing> ring_;
  const std::shared_ptr<BlockArena> source_;
  const std::shared_ptr<BlockArena> target_;
  const u32 blocks_per_piece_;
  std::vector<u32> marks_;  // by target block: the last check that met it
  u32 mark_ = 0;
  Job* draft_ = nullptr;  // what prepare() works on; the owner's alone

  mutable std::mutex mutex_;
  // All below is guarded by it.
  std::condition_variable wake_;  // there is work, or the end
  std::condition_variable over_;  // a job is over
  std::vector<std::unique_ptr<Job>> owned_;
  std::vector<Job*> spare_;
  std::vector<Job*> by_slot_;  // of the ring
  List ready_;    // only the first has begun
  List waiting_;  // by step, then submission
  std::int64_t settled_ = kNoFence;
  u32 pending_ = 0;
  Traffic traffic_;
  u32 idle_ = 0;          // threads that wait for work
  bool blocked_ = false;  // the owner waits for `over_`
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace blockstep
