// How a lane ends that has lost its GPU.
#include <thread>

#include "cuda_lane.h"
#include "lane_gpu.h"

namespace blockstep::cuda {

/// The end of the lane: every job fails, once nothing of it can be touched any more. If that cannot be known because work
/// is still under way and does not end, what it may touch is never freed.
void CudaLane::lose(const std::string& reason, bool may_wait) {
  lost_ = reason;
  const Clock::time_point deadline = Clock::now() + (may_wait ? patience_ : std::chrono::milliseconds(0));
  // An error that is found twice is that of a device that is lost, on which nothing runs.
  for (u32 errors = 0; errors < 2;) {
    const cudaError_t status = query(gpu_->stream.get());
    if (status == cudaSuccess) break;
    if (status != cudaErrorNotReady) {
      ++errors;
    } else if (Clock::now() >= deadline) {
      stop_freeing();
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
