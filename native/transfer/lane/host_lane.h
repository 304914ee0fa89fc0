// HostLane: a lane whose own threads copy between two arenas on the host.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../completion_ring.h"
#include "job_list.h"
#include "job_pool.h"
#include "lane.h"

namespace blockstep {

/// Several threads share the pieces of one job. The next job begins after the last piece of this
/// job was copied.
class HostLane final : public Lane {
 public:
  static constexpr u32 kMaxThreads = 16;

  /// Copies the bytes of one run. The lane's threads call it concurrently without a lock.
  using CopyBytes = void (*)(void* target, const void* source, std::size_t bytes);
  static void copy_bytes(void* target, const void* source, std::size_t bytes) { std::memcpy(target, source, bytes); }

  struct Options {
    u32 threads;      // 1 .. kMaxThreads
    u64 piece_bytes;  // most bytes per piece, but at least one block
    CopyBytes copy = copy_bytes;
  };

  /// @throws Error kBadArg for arenas that BlockPairs refuses or that are on a GPU, kLimit if a
  /// thread cannot be started; std::bad_alloc
  HostLane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target,
           Options options);
  /// Cancels all jobs, and waits for the pieces that are being copied.
  ~HostLane() override;

  u32 submit(BlockList sources, BlockList targets, std::int64_t not_before) override;
  void settle(std::int64_t step) override;
  bool cancel(u32 job) override;
  void flush(BlockList jobs) override;
  void fence() override;
  u32 pending() override;
  u32 waiting() override;
  Traffic traffic() override;

 private:
  struct Job {
    Job* prev = nullptr;
    Job* next = nullptr;
    JobList<Job>* list = nullptr;  // waiting_, then ready_ until the job is over
    u32 number = 0;
    u32 active = 0;        // pieces that are being copied
    u32 next_piece = 0;
    bool cancelled = false;
    std::int64_t not_before = kNoFence;
    CopyPlan plan;
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
  Job& take_job();

  const std::shared_ptr<CompletionRing> ring_;
  BlockPairs pairs_;
  const u32 blocks_per_piece_;
  const CopyBytes copy_bytes_;
  Job* draft_ = nullptr;  // from the pool, not submitted yet; only the owner uses it

  mutable std::mutex mutex_;
  // The mutex guards all members below.
  std::condition_variable wake_;  // signalled if there is work, or if the threads must stop
  std::condition_variable over_;  // signalled when a job is over
  JobPool<Job> jobs_;
  JobList<Job> ready_;    // jobs that wait for no step; only the first one has begun
  JobList<Job> waiting_;  // jobs that wait for a step: by step, then by submission
  std::int64_t settled_ = kNoFence;
  u32 pending_ = 0;
  Traffic traffic_;
  u32 idle_ = 0;          // threads that wait for work
  bool blocked_ = false;  // the owner waits for `over_`
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace blockstep
