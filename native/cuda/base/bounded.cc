#include "bounded.h"

#include <future>
#include <thread>

namespace blockstep::cuda {

bool returns_in_time(int device, std::function<void()> call, std::chrono::milliseconds patience) {
  std::promise<void> promise;
  std::future<void> returned = promise.get_future();
  std::thread([device, call = std::move(call), promise = std::move(promise)]() mutable {
    try {
      const OnDevice on(device);
      call();
      promise.set_value();
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  if (returned.wait_for(patience) != std::future_status::ready) return false;
  returned.get();
  return true;
}

}  // namespace blockstep::cuda
