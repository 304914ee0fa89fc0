// CudaLane: a lane whose copies a GPU makes, in its own stream.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../transfer/completion_ring.h"
#include "../../transfer/lane/device_lane.h"
#include "../../transfer/lane/job_list.h"
#include "../../transfer/lane/job_pool.h"
#include "../copies/copier.h"
#include "recorded_steps.h"
#include "timeline.h"

namespace blockstep::cuda {

struct LaneGpu;

/// The lane has no thread. The owner's calls queue pieces on the GPU ("give" them) and note the
/// pieces that the GPU has done. collect(), which the ring calls when it is drained, does the same.
/// A mark of the timeline follows every piece. Marks are numbered from 1.
class CudaLane final : public DeviceLane, private Collector {
 public:
  /// @throws Error kBadArg for arenas that BlockPairs or device_of() refuses; kCuda; std::bad_alloc
  CudaLane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target,
           const DeviceLaneOptions& options);
  ~CudaLane() override;

  u32 submit(BlockList sources, BlockList targets, std::int64_t not_before) override;
  void settle(std::int64_t step) override;
  void record_step(std::int64_t step, u64 stream) override;
  bool cancel(u32 job) override;
  void flush(BlockList jobs) override;
  void fence() override;
  u32 pending() override;
  u32 waiting() override;
  Traffic traffic() override;
  const DeviceLaneInfo& info() const override { return info_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Job {
    Job* prev = nullptr;
    Job* next = nullptr;
    JobList<Job>* list = nullptr;  // waiting_, then ready_ until the job is over
    u32 number = 0;
    u32 flying = 0;      // pieces that are queued on the GPU and not noted as done
    u32 next_piece = 0;  // the next piece to queue
    bool cancelled = false;
    bool failed = false;
    std::int64_t not_before = kNoFence;
    CopyPlan plan;

    bool wants_more() const { return !cancelled && !failed && next_piece < plan.num_pieces(); }
  };
  /// A piece that is queued on the GPU.
  struct Flying {
    Job* job = nullptr;
    u32 piece = 0;
    u64 blocks = 0;
    bool whole = false;  // all copies of the piece were queued
  };
  void collect() override;
  void note(u64 done);
  void note_piece(const Flying& flying);
  void check_stream();
  void feed();
  void give(Job& job);
  void drop(Job& job);
  void drop_waiting();
  void drop_ungiven();
  void end(Job& job);
  void stop_waiting(std::int64_t step);
  void make_ready(Job& job);
  template <class Over>
  void wait_until(const Over& over);
  void lose(const std::string& reason, bool may_wait);
  void fail_all();
  void require_there() const;

  static constexpr u32 kMaxFlying = 256;

  const std::shared_ptr<CompletionRing> ring_;
  const u64 window_bytes_;
  const u32 runs_per_call_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<LaneGpu> gpu_;
  u32 blocks_per_piece_;
  DeviceLaneInfo info_;

  JobPool<Job> jobs_;
  Job* draft_ = nullptr;   // from the pool, not submitted yet
  JobList<Job> ready_;     // jobs that wait for no step, in the order of the stream
  JobList<Job> waiting_;   // jobs that wait for a step: by step, then by submission
  Job* giving_ = nullptr;  // the first job in ready_ with a piece to queue
  Flying flying_[kMaxFlying];  // by mark modulo kMaxFlying
  u64 given_ = 0;          // the last mark that was queued
  u64 done_ = 0;           // the last mark that was noted as done
  u64 blocks_flying_ = 0;
  std::int64_t settled_ = kNoFence;
  u32 pending_ = 0;
  Traffic traffic_;
  Clock::time_point next_check_{};
  // The stream is done since then, but the word of its last piece is missing.
  std::optional<Clock::time_point> silent_since_;
  std::string lost_;       // why the GPU is lost; empty if it is not lost
};

}  // namespace blockstep::cuda
