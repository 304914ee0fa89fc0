#include "host_lane.h"

#include <algorithm>
#include <system_error>

#if !defined(_WIN32)
#include <csignal>
#include <pthread.h>
#endif

namespace blockstep {
namespace {

/// While this object lives, threads that this thread starts block all signals: the program's own
/// threads handle signals.
class SignalsBlocked {
 public:
#if defined(_WIN32)
  SignalsBlocked() {}
#else
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
#endif
};

}  // namespace

HostLane::HostLane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                   std::shared_ptr<BlockArena> target, Options options)
    : ring_(std::move(ring)),
      pairs_(std::move(source), std::move(target)),
      blocks_per_piece_(pairs_.blocks_in(options.piece_bytes)),
      copy_bytes_(options.copy),
      jobs_(*ring_) {
  const bool of_source = pairs_.source().place() == Place::kDevice;
  if (of_source || pairs_.target().place() == Place::kDevice) {
    throw Error{kBadArg, std::string(of_source ? "source" : "target") +
                             " must be an arena in memory of the host, got an arena on a GPU: use a CudaLane"};
  }
  start_threads(options.threads);
}

void HostLane::start_threads(u32 count) {
  threads_.reserve(count);
  const SignalsBlocked blocked;
  try {
    for (u32 i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw Error{kLimit, std::string("a lane's thread could not be started: ") + error.what()};
  }
}

HostLane::~HostLane() { stop(); }

void HostLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    drop_if(true);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

u32 HostLane::submit(BlockList sources, BlockList targets, std::int64_t not_before) {
  pairs_.check(sources, targets);
  if (!draft_) draft_ = &take_job();
  Job& job = *draft_;
  job.plan.make(sources, targets, blocks_per_piece_);
  const u32 number = ring_->begin(true);
  if (number == 0) {
    throw Error{kRingFull, "all " + std::to_string(ring_->capacity()) +
                               " slots of the completion queue are held by jobs: drain it, then submit again"};
  }
  draft_ = nullptr;
  const std::lock_guard lock(mutex_);
  job.number = number;
  job.not_before = not_before;
  jobs_.enter(job);
  ++pending_;
  if (not_before <= settled_) {
    make_ready(job);
  } else {
    waiting_.insert_by_step(job);
  }
  return number;
}

HostLane::Job& HostLane::take_job() {
  const std::lock_guard lock(mutex_);
  return jobs_.take();
}

void HostLane::settle(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  settled_ = std::max(settled_, step);
  while (waiting_.first && waiting_.first->not_before <= settled_) {
    Job& job = *waiting_.first;
    waiting_.remove(job);
    make_ready(job);
  }
}

/// The caller holds the mutex.
void HostLane::make_ready(Job& job) {
  ready_.append(job);
  if (ready_.first == &job) wake(job);
}

/// Wakes threads for a job that may now begin.
void HostLane::wake(const Job& job) {
  if (idle_ == 0) return;
  if (job.plan.num_pieces() == 1) wake_.notify_one();
  else wake_.notify_all();
}

bool HostLane::cancel(u32 number) {
  const std::lock_guard lock(mutex_);
  Job* job = jobs_.find(number);
  if (!job) return false;
  drop(*job);
  return true;
}

/// Prevents further pieces of the job from beginning. The caller holds the mutex.
void HostLane::drop(Job& job) {
  job.cancelled = true;
  if (job.active == 0) end(job);
}

void HostLane::drop_if(bool begun_too) {
  while (waiting_.first) drop(*waiting_.first);
  for (Job* job = ready_.first; job;) {
    Job* next = job->next;
    if (begun_too || job->next_piece == 0) drop(*job);
    job = next;
  }
}

void HostLane::flush(BlockList jobs) {
  std::unique_lock lock(mutex_);
  for (u32 i = 0; i < jobs.count; ++i) {
    const Job* job = jobs_.find(static_cast<u32>(jobs.ids[i]));
    if (!job || job->list != &waiting_) continue;
    throw Error{kBadArg, "jobs must not wait for a step that was not settled, got job " + std::to_string(job->number) +
                             ", which waits for step " + std::to_string(job->not_before)};
  }
  blocked_ = true;
  for (u32 i = 0; i < jobs.count; ++i) {
    while (jobs_.find(static_cast<u32>(jobs.ids[i]))) over_.wait(lock);
  }
  blocked_ = false;
}

void HostLane::fence() {
  std::unique_lock lock(mutex_);
  drop_if(false);
  blocked_ = true;
  while (ready_.first) over_.wait(lock);
  blocked_ = false;
}

u32 HostLane::pending() {
  const std::lock_guard lock(mutex_);
  return pending_;
}

HostLane::Traffic HostLane::traffic() {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

u32 HostLane::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_.size;
}

/// Returns the first job if a piece of it can begin, otherwise null. Later jobs must wait, because
/// they may write the same blocks.
HostLane::Job* HostLane::next_job() const {
  Job* job = ready_.first;
  return job && !job->cancelled && job->next_piece < job->plan.num_pieces() ? job : nullptr;
}

void HostLane::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = next_job();
    while (!job && !stopping_) {
      ++idle_;
      wake_.wait(lock);
      --idle_;
      job = next_job();
    }
    if (!job) return;
    const u32 piece = job->next_piece++;
    ++job->active;
    lock.unlock();
    const u64 blocks = copy(*job, piece);
    lock.lock();
    traffic_.bytes += blocks * pairs_.bytes_per_block();
    traffic_.copies += job->plan.end_run(piece) - job->plan.first_run(piece);
    --job->active;
    if (job->active == 0 && job != next_job()) end(*job);
  }
}

/// Copies one piece of a job. @returns the number of copied blocks
u64 HostLane::copy(const Job& job, u32 piece) {
  u64 blocks = 0;
  const BlockArena& source = pairs_.source();
  BlockArena& target = pairs_.target();
  for (u32 i = job.plan.first_run(piece); i < job.plan.end_run(piece); ++i) {
    const Run& run = job.plan.runs[i];
    const auto bytes = static_cast<std::size_t>(run.count * source.bytes_per_block());
    copy_bytes_(target.block(run.target), source.block(run.source), bytes);
    target.arrived(run.target, run.count);
    blocks += run.count;
  }
  return blocks;
}

/// Ends a job. The word is posted under the mutex. An owner who reads the word and then submits
/// must wait for the mutex, and finds the job object back in the pool.
void HostLane::end(Job& job) {
  const u32 number = job.number;
  const bool whole = job.next_piece == job.plan.num_pieces();
  job.list->remove(job);
  job.next_piece = 0;
  job.cancelled = false;
  jobs_.give_back(job);
  --pending_;
  ring_->post(number, whole ? Verdict::kOk : Verdict::kCancelled);
  if (next_job()) wake(*ready_.first);  // this thread continues anyway, others may join
  if (blocked_) over_.notify_one();
}

}  // namespace blockstep
