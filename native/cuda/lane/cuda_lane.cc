#include "cuda_lane.h"

#include <algorithm>
#include <thread>

#include "../base/backend.h"
#include "../device/probe.h"
#include "lane_gpu.h"

namespace blockstep::cuda {
namespace {

/// Maximum delay of the last piece's word after the end of the stream. The bus may delay it.
constexpr std::chrono::milliseconds kWordPatience{5};

}  // namespace

CudaLane::CudaLane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                   std::shared_ptr<BlockArena> target, const DeviceLaneOptions& options)
    : ring_(std::move(ring)),
      window_bytes_(options.window_bytes),
      runs_per_call_(options.runs_per_call),
      patience_(options.patience_ms),
      jobs_(*ring_) {
  BlockPairs pairs(std::move(source), std::move(target));
  const u32 device = device_of(pairs);
  blocks_per_piece_ = std::min({pairs.blocks_in(options.piece_bytes), Copier::kMaxBlocks, options.runs_per_call});
  require_usable(device);
  const OnDevice on(static_cast<int>(device));
  gpu_ = std::make_unique<LaneGpu>(std::move(pairs), device, options, kMaxFlying);
  info_ = {device, gpu_->copier.mode(), gpu_->timeline.mode()};
  ring_->join(*this);
}

CudaLane::~CudaLane() {
  ring_->leave(*this);
  drop_waiting();
  drop_ungiven();
  wait_until([&] { return done_ == given_; });
}

u32 CudaLane::submit(BlockList sources, BlockList targets, std::int64_t not_before) {
  require_there();
  gpu_->pairs.check(sources, targets);
  if (!draft_) draft_ = &jobs_.take();
  Job& job = *draft_;
  job.plan.make(sources, targets, blocks_per_piece_);
  job.number = ring_->begin(true);
  if (job.number == 0) {
    throw Error{kRingFull, "all " + std::to_string(ring_->capacity()) +
                               " slots of the completion queue are held by jobs: drain it, then submit again"};
  }
  const u32 number = job.number;  // feed() may end the job
  draft_ = nullptr;
  job.not_before = not_before;
  jobs_.enter(job);
  ++pending_;
  if (not_before <= std::max(settled_, gpu_->steps.last())) {
    make_ready(job);
    feed();
  } else {
    waiting_.insert_by_step(job);
  }
  return number;
}

void CudaLane::settle(std::int64_t step) {
  settled_ = std::max(settled_, step);
  stop_waiting(settled_);
}

void CudaLane::record_step(std::int64_t step, u64 stream) {
  require_there();
  if (step <= std::max(settled_, gpu_->steps.last())) return;
  {
    const OnDevice on(gpu_->device);
    gpu_->steps.record(step, reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream)));
  }
  stop_waiting(step);
}

/// Jobs that wait for this step or an earlier step become ready.
void CudaLane::stop_waiting(std::int64_t step) {
  while (waiting_.first && waiting_.first->not_before <= step) {
    Job& job = *waiting_.first;
    waiting_.remove(job);
    make_ready(job);
  }
  feed();
}

void CudaLane::make_ready(Job& job) {
  ready_.append(job);
  if (!giving_) giving_ = &job;
}

/// Queues pieces on the GPU, up to the limits of the window and of one call.
void CudaLane::feed() {
  for (u32 runs = 0; giving_ && given_ - done_ < kMaxFlying && runs < runs_per_call_;) {
    const u64 bytes = blocks_flying_ * gpu_->pairs.bytes_per_block();
    if (bytes >= window_bytes_ && given_ != done_) return;
    Job& job = *giving_;
    runs += job.plan.end_run(job.next_piece) - job.plan.first_run(job.next_piece);
    give(job);
    if (giving_ == &job && !job.wants_more()) giving_ = job.next;
  }
}

/// Queues the next piece of a job and a mark behind it. The mark is queued even if only a part of
/// the piece was queued.
void CudaLane::give(Job& job) {
  LaneGpu& gpu = *gpu_;
  const u32 piece = job.next_piece;
  const u32 first = job.plan.first_run(piece);
  const u32 count = job.plan.end_run(piece) - first;
  const bool behind = job.not_before > settled_;
  bool whole = true;
  try {
    const OnDevice on(gpu.device);
    try {
      if (behind) gpu.steps.wait(job.not_before, gpu.stream.get());
      gpu.copier.copy(job.plan.runs.data() + first, count, behind);
    } catch (const Error&) {
      whole = false;
    }
    gpu.timeline.mark(given_ + 1, gpu.stream.get());
  } catch (const Error& error) {
    lose(error.message, true);
    return;
  }
  u64 blocks = 0;
  for (u32 i = first; i < first + count; ++i) blocks += job.plan.runs[i].count;
  silent_since_.reset();
  flying_[++given_ % kMaxFlying] = {&job, piece, blocks, whole};
  blocks_flying_ += blocks;
  ++job.flying;
  ++job.next_piece;
  job.failed = !whole;
}

void CudaLane::collect() {
  if (given_ == done_ || !lost_.empty()) return;
  try {
    const u64 before = done_;
    note(gpu_->timeline.done());
    if (done_ == before && Clock::now() >= next_check_) check_stream();
  } catch (const Error& error) {
    lose(error.message, true);
    return;
  }
  feed();
}

void CudaLane::note(u64 done) {
  while (done_ < done) {
    ++done_;
    note_piece(flying_[done_ % kMaxFlying]);
  }
}

void CudaLane::note_piece(const Flying& flying) {
  Job& job = *flying.job;
  BlockArena& target = gpu_->pairs.target();
  if (flying.whole) {
    for (u32 i = job.plan.first_run(flying.piece); i < job.plan.end_run(flying.piece); ++i) {
      target.arrived(job.plan.runs[i].target, job.plan.runs[i].count);
    }
    traffic_.bytes += flying.blocks * target.bytes_per_block();
    traffic_.copies += job.plan.end_run(flying.piece) - job.plan.first_run(flying.piece);
  }
  blocks_flying_ -= flying.blocks;
  --job.flying;
  if (job.flying == 0 && !job.wants_more()) end(job);
}

/// Queries the stream, because a lost device writes no marks. @throws Error kCuda if the device is
/// lost, or if its mark is missing kWordPatience after the stream was done
void CudaLane::check_stream() {
  const Clock::time_point now = Clock::now();
  next_check_ = now + kCheckInterval;
  const OnDevice on(gpu_->device);
  const cudaError_t status = query(gpu_->stream.get());
  if (status == cudaErrorNotReady) {
    silent_since_.reset();
    return;
  }
  require(status, "work on the GPU");
  note(gpu_->timeline.done());
  if (done_ == given_) {
    silent_since_.reset();
  } else if (!silent_since_) {
    silent_since_ = now;
  } else if (now - *silent_since_ >= kWordPatience) {
    throw Error{kCuda, "the GPU has done its copies and its word of that did not come"};
  }
}

bool CudaLane::cancel(u32 number) {
  collect();
  Job* job = jobs_.find(number);
  if (!job) return false;
  drop(*job);
  feed();
  return true;
}

/// Cancels a job: no further piece of it is queued.
void CudaLane::drop(Job& job) {
  job.cancelled = true;
  if (giving_ == &job) giving_ = job.next;
  if (job.flying == 0) end(job);
}

void CudaLane::drop_waiting() {
  while (waiting_.first) drop(*waiting_.first);
}

void CudaLane::drop_ungiven() {
  while (giving_) drop(*giving_);
}

void CudaLane::flush(BlockList jobs) {
  for (u32 i = 0; i < jobs.count; ++i) {
    const Job* job = jobs_.find(static_cast<u32>(jobs.ids[i]));
    if (!job || job->list != &waiting_) continue;
    throw Error{kBadArg, "jobs must not wait for a step that was not settled, got job " + std::to_string(job->number) +
                             ", which waits for step " + std::to_string(job->not_before)};
  }
  for (u32 i = 0; i < jobs.count; ++i) {
    wait_until([&] { return !jobs_.find(static_cast<u32>(jobs.ids[i])); });
  }
}

void CudaLane::fence() {
  drop_waiting();
  drop_ungiven();
  wait_until([&] { return done_ == given_; });
}

u32 CudaLane::pending() {
  collect();
  return pending_;
}

u32 CudaLane::waiting() { return waiting_.size; }

CudaLane::Traffic CudaLane::traffic() {
  collect();
  return traffic_;
}

/// Ends a job that is in a list and has no piece on the GPU.
void CudaLane::end(Job& job) {
  const u32 number = job.number;
  const bool whole = job.next_piece == job.plan.num_pieces();
  const Verdict verdict = job.failed ? Verdict::kFailed : whole ? Verdict::kOk : Verdict::kCancelled;
  if (giving_ == &job) giving_ = job.next;
  job.list->remove(job);
  job.next_piece = job.flying = 0;
  job.cancelled = job.failed = false;
  jobs_.give_back(job);
  --pending_;
  ring_->post(number, verdict);
}

/// Waits until over() returns true, or until the GPU is lost, which ends all jobs.
template <class Over>
void CudaLane::wait_until(const Over& over) {
  u64 before = done_;
  Clock::time_point deadline = Clock::now() + patience_;
  while (!over() && lost_.empty()) {
    collect();
    if (done_ != before) {
      before = done_;
      deadline = Clock::now() + patience_;
    } else if (Clock::now() >= deadline) {
      lose("no progress for " + std::to_string(patience_.count()) + " ms", false);
    } else {
      std::this_thread::yield();
    }
  }
}

std::unique_ptr<DeviceLane> open_lane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                                      std::shared_ptr<BlockArena> target, const DeviceLaneOptions& options) {
  return std::make_unique<CudaLane>(std::move(ring), std::move(source), std::move(target), options);
}

}  // namespace blockstep::cuda
