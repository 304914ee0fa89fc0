#include "host_lane.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#if !defined(_WIN32)
#include <csignal>
#include <pthread.h>
#endif

namespace blockstep {
namespace {

/// While it lives, threads that are started take no signal: those are for the threads of the program.
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

void refuse_block(const char* name, u32 index, std::int32_t got, u32 num_blocks) {
  throw Error{kBadArg, std::string(name) + "[" + std::to_string(index) + "] must be an integer from 0 to " +
                           std::to_string(num_blocks - 1) + ", got " + std::to_string(got)};
}

}  // namespace

HostLane::HostLane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                   std::shared_ptr<BlockArena> target, Options options)
    : ring_(std::move(ring)),
      source_(std::move(source)),
      target_(std::move(target)),
      blocks_per_piece_(static_cast<u32>(std::clamp<u64>(
          options.piece_bytes / source_->bytes_per_block(), 1, source_->num_blocks()))),
      marks_(target_->num_blocks()),
      by_slot_(ring_->capacity()) {
  if (source_ == target_) throw Error{kBadArg, "target must be another arena than source, got the same"};
  if (source_->bytes_per_block() != target_->bytes_per_block()) {
    throw Error{kBadArg, "target must have blocks of " + std::to_string(source_->bytes_per_block()) +
                             " bytes as source has, got " + std::to_string(target_->bytes_per_block())};
  }
  if (source_->place() == Place::kDevice || target_->place() == Place::kDevice) {
    throw Error{kBadArg, std::string(source_->place() == Place::kDevice ? "source" : "target") +
                             " must be an arena in memory of the host, got one on a GPU: a CUDA lane copies those"};
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
  check_blocks(sources, targets);
  Job& job = prepare(sources, targets);
  const u32 number = ring_->begin(true);
  if (number == 0) {
    throw Error{kRingFull, "all " + std::to_string(ring_->capacity()) +
                               " slots of the completion queue are held by jobs: drain it, then submit again"};
  }
  draft_ = nullptr;
  const std::lock_guard lock(mutex_);
  job.number = number;
  job.not_before = not_before;
  by_slot_[ring_->slot_of(number)] = &job;
  ++pending_;
  if (not_before <= settled_) {
    make_ready(job);
  } else {
    Job* prev = waiting_.last;
    while (prev && prev->not_before > not_before) prev = prev->prev;
    waiting_.insert_behind(prev, job);
  }
  return number;
}

void HostLane::check_blocks(BlockList sources, BlockList targets) {
  if (sources.count == 0) throw Error{kBadArg, "sources must name at least one block, got none"};
  if (sources.count != targets.count) {
    throw Error{kBadArg, "targets must name as many blocks as sources, " + std::to_string(sources.count) + ", got " +
                             std::to_string(targets.count)};
  }
  if (++mark_ == 0) {
    std::fill(marks_.begin(), marks_.end(), 0u);
    mark_ = 1;
  }
  for (u32 i = 0; i < sources.count; ++i) {
    const auto from = static_cast<u32>(sources.ids[i]);
    const auto to = static_cast<u32>(targets.ids[i]);
    if (from >= source_->num_blocks()) refuse_block("sources", i, sources.ids[i], source_->num_blocks());
    if (to >= target_->num_blocks()) refuse_block("targets", i, targets.ids[i], target_->num_blocks());
    if (marks_[to] == mark_) throw Error{kBadArg, "targets must name a block once, got " + std::to_string(to) + " twice"};
    marks_[to] = mark_;
  }
}

/// A job that nobody else knows yet, with its runs and pieces. What is not submitted is the next one's.
HostLane::Job& HostLane::prepare(BlockList sources, BlockList targets) {
  if (!draft_) draft_ = take_spare();
  Job* job = draft_;
  job->runs.clear();
  job->piece_ends.clear();
  u32 room = blocks_per_piece_;
  for (u32 i = 0; i < sources.count; ++i) {
    const auto from = static_cast<u32>(sources.ids[i]);
    const auto to = static_cast<u32>(targets.ids[i]);
    if (room == 0) {
      job->piece_ends.push_back(static_cast<u32>(job->runs.size()));
      room = blocks_per_piece_;
    }
    --room;
    const bool first = room + 1 == blocks_per_piece_;
    if (!first && from == job->runs.back().source + job->runs.back().count &&
        to == job->runs.back().target + job->runs.back().count) {
      ++job->runs.back().count;
    } else {
      job->runs.push_back({from, to, 1});
    }
  }
  job->piece_ends.push_back(static_cast<u32>(job->runs.size()));
  return *job;
}

HostLane::Job* HostLane::take_spare() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) {
    // A thread that returns a job allocates nothing.
    if (spare_.capacity() == owned_.size()) spare_.reserve(2 * owned_.size() + 8);
    owned_.push_back(std::make_unique<Job>());
    return owned_.back().get();
  }
  Job* job = spare_.back();
  spare_.pop_back();
  return job;
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

/// With the mutex held.
void HostLane::make_ready(Job& job) {
  ready_.insert_behind(ready_.last, job);
  if (ready_.first == &job) wake(job);
}

/// Threads for a job that may begin now.
void HostLane::wake(const Job& job) {
  if (idle_ == 0) return;
  if (job.piece_ends.size() == 1) wake_.notify_one();
  else wake_.notify_all();
}

bool HostLane::cancel(u32 number) {
  const std::lock_guard lock(mutex_);
  Job* job = find(number);
  if (!job) return false;
  drop(*job);
  return true;
}

/// No piece of it begins any more. With the mutex held.
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
    const Job* job = find(static_cast<u32>(jobs.ids[i]));
    if (!job || job->list != &waiting_) continue;
    throw Error{kBadArg, "jobs must not wait for a step that was not settled, got job " + std::to_string(job->number) +
                             ", which waits for step " + std::to_string(job->not_before)};
  }
  blocked_ = true;
  for (u32 i = 0; i < jobs.count; ++i) {
    while (find(static_cast<u32>(jobs.ids[i]))) over_.wait(lock);
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

u32 HostLane::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_;
}

HostLane::Traffic HostLane::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

u32 HostLane::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size;
}

/// The job of this number if it is not over. With the mutex held.
HostLane::Job* HostLane::find(u32 number) const {
  if (number == 0) return nullptr;
  Job* job = by_slot_[ring_->slot_of(number)];
  return job && job->number == number ? job : nullptr;
}

/// The first job, if a piece of it can begin: one job after the other, since they may write the same blocks.
HostLane::Job* HostLane::next_job() const {
  Job* job = ready_.first;
  return job && !job->cancelled && job->next_piece < job->piece_ends.size() ? job : nullptr;
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
    traffic_.bytes += blocks * source_->bytes_per_block();
    traffic_.copies += job->piece_ends[piece] - (piece == 0 ? 0 : job->piece_ends[piece - 1]);
    --job->active;
    if (job->active == 0 && job != next_job()) end(*job);
  }
}

/// @returns how many blocks
u64 HostLane::copy(const Job& job, u32 piece) {
  u64 blocks = 0;
  const u64 size = source_->bytes_per_block();
  for (u32 i = piece == 0 ? 0 : job.piece_ends[piece - 1]; i < job.piece_ends[piece]; ++i) {
    const Run& run = job.runs[i];
    std::memcpy(target_->block(run.target), source_->block(run.source), static_cast<std::size_t>(run.count * size));
    target_->arrived(run.target, run.count);
    blocks += run.count;
  }
  return blocks;
}

/// Its word is posted under the mutex, so that whoever reads it and submits finds the job's place free.
void HostLane::end(Job& job) {
  const u32 number = job.number;
  const bool whole = job.next_piece == job.piece_ends.size();
  job.list->remove(job);
  job.number = job.next_piece = 0;
  job.cancelled = false;
  spare_.push_back(&job);
  --pending_;
  ring_->post(number, whole ? Verdict::kOk : Verdict::kCancelled);
  if (next_job()) wake(*ready_.first);  // this thread goes on anyway; others may join
  if (blocked_) over_.notify_one();
}

void HostLane::List::insert_behind(Job* prev, Job& job) {
  job.list = this;
  job.prev = prev;
  job.next = prev ? prev->next : first;
  (job.prev ? job.prev->next : first) = &job;
  (job.next ? job.next->prev : last) = &job;
  ++size;
}

void HostLane::List::remove(Job& job) {
  (job.prev ? job.prev->next : first) = job.next;
  (job.next ? job.next->prev : last) = job.prev;
  job.prev = job.next = nullptr;
  job.list = nullptr;
  --size;
}

}  // namespace blockstep
