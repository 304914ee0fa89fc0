// How a CudaLane ends when its GPU is lost.
#include <thread>

#include "cuda_lane.h"
#include "lane_gpu.h"

namespace blockstep::cuda {
namespace {

/// Queries whether the lane's stream is done. A GPU that cannot be made current is lost.
cudaError_t ask(const LaneGpu& gpu) {
  try {
    const OnDevice on(gpu.device);
    return query(gpu.stream.get());
  } catch (const Error&) {
    return cudaErrorUnknown;
  }
}

}  // namespace

/// Ends the lane: every job fails, once the GPU can no longer access the memory of the lane. If
/// unfinished work does not end, the GPU may access the memory at any time. That memory is then
/// never freed.
/// @param may_wait wait for the work, for at most patience_
void CudaLane::lose(const std::string& reason, bool may_wait) {
  lost_ = reason;
  const Clock::time_point deadline = Clock::now() + (may_wait ? patience_ : std::chrono::milliseconds(0));
  // A lost device runs no work.
  for (u32 errors = 0; errors < kErrorsOfLost;) {
    const cudaError_t status = ask(*gpu_);
    if (status == cudaSuccess) break;
    if (status != cudaErrorNotReady) {
      ++errors;
    } else if (Clock::now() >= deadline) {
      count_abandoned(gpu_->pairs.source().bytes() + gpu_->pairs.target().bytes());
      static_cast<void>(gpu_.release());
      break;
    } else {
      std::this_thread::yield();
    }
  }
  fail_all();
}

void CudaLane::fail_all() {
  giving_ = nullptr;
  done_ = given_;
  for (JobList<Job>* list : {&ready_, &waiting_}) {
    while (list->first) {
      list->first->failed = true;
      end(*list->first);
    }
  }
}

void CudaLane::require_there() const {
  if (!lost_.empty()) throw Error{kCuda, "the lane lost its GPU: " + lost_};
}

}  // namespace blockstep::cuda
