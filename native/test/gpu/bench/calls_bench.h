// Driver calls that may wait until the GPU is idle, each alone beside continuously queued work.
#pragma once

#include <atomic>
#include <memory>

#include "../../../cuda/base/gpu.h"
#include "../../../cuda/memory/memory.h"
#include "figures.h"
#include "kernels/matrix_product.h"

namespace blockstep::bench {

/// A call and its inverse. Both are timed.
struct DriverCall {
  const char* name;
  std::function<void*()> make;
  std::function<void(void*)> undo;
};

/// The calls that open a core, tables, an arena and a lane, and the calls of a copy.
inline std::vector<DriverCall> driver_calls() {
  constexpr std::size_t kBytes = 8 << 20;
  const auto copies = [](cuda::Priority priority) {
    struct Held {
      explicit Held(cuda::Priority of) : stream(of) {}
      cuda::Stream stream;
      cuda::Event end;
      cuda::MappedMemory source{128 << 10};
      cuda::DeviceMemory target{128 << 10};
    };
    return [held = std::make_shared<Held>(priority)]() -> void* {
      for (int i = 0; i < 6; ++i) {
        cuda::require(cudaMemcpyAsync(held->target.base(), held->source.base(), held->target.bytes(), cudaMemcpyHostToDevice,
                                      held->stream.get()), "cudaMemcpyAsync");
      }
      cuda::require(cudaEventRecord(held->end.get(), held->stream.get()), "cudaEventRecord");
      cudaError_t status;
      while ((status = cuda::query(held->end.get())) == cudaErrorNotReady) std::this_thread::yield();
      cuda::require(status, "copies");
      return nullptr;
    };
  };
  return {
      {"a stream", [] { return new cuda::Stream; }, [](void* it) { delete static_cast<cuda::Stream*>(it); }},
      {"an event", [] { return new cuda::Event; }, [](void* it) { delete static_cast<cuda::Event*>(it); }},
      {"six copies of 128 KiB, highest priority", copies(cuda::Priority::kHighest), {}},
      {"six copies of 128 KiB, lowest priority", copies(cuda::Priority::kLowest), {}},
      {"memory of the pool, 8 MiB", [] { return new cuda::DeviceMemory(kBytes); },
       [](void* it) { delete static_cast<cuda::DeviceMemory*>(it); }},
      {"cudaMalloc, 8 MiB",
       [] {
         void* memory = nullptr;
         cuda::require(cudaMalloc(&memory, kBytes), "cudaMalloc");
         return memory;
       },
       [](void* it) { cuda::require(cudaFree(it), "cudaFree"); }},
      {"pinned memory, 8 MiB",
       [] {
         void* memory = nullptr;
         cuda::require(cudaHostAlloc(&memory, kBytes, cudaHostAllocMapped), "cudaHostAlloc");
         return memory;
       },
       [](void* it) { cuda::require(cudaFreeHost(it), "cudaFreeHost"); }},
  };
}

class CallsBench {
 public:
  CallsBench(u32 device, u32 side, u64 copy_bytes) : device_(static_cast<int>(device)), side_(side), copy_bytes_(copy_bytes) {}

  /// Every call beside one kind of work, by another thread. A call that waits for an idle GPU never
  /// returns beside endless work. Such a call is named on stderr, with whether it returns once no
  /// other work runs, and has no figure.
  void run(Beside beside, u32 times) {
    // Also creates the objects of a copy, beside no other work.
    for (const DriverCall& call : driver_calls()) {
      Busy busy(beside, device_, side_, copy_bytes_);
      const auto found = std::make_shared<Found>();
      std::thread([found, call, times, device = device_] { found->measure(call, times, device); }).detach();
      if (!found->over_within(kMostOfOne)) {
        std::fprintf(stderr, "%s: %s did not return in time, beside: %s\n", call.name, found->undoing ? "its undoing" : "it",
                     name_of(beside));
        busy.stop();
        const bool returned = found->over_within(kMostOfOne);
        std::fprintf(stderr, "%s: beside nothing it %s\n", call.name, returned ? "returned" : "did not return either");
        if (!returned) throw Error{kCuda, std::string(call.name) + " did not return on an idle GPU"};
      }
      if (!found->wrong.empty()) throw Error{kCuda, found->wrong};
      const std::string name = std::string("a call, ") + call.name;
      if (!found->stuck) print({name, nullptr, name_of(beside)}, found->made);
      if (!found->stuck) print({name + ", undone", nullptr, name_of(beside)}, found->undone);
    }
  }

 private:
  /// The results of one thread, read after it has ended.
  struct Found {
    Samples made;
    Samples undone;
    std::string wrong;
    std::atomic<bool> undoing{false};
    std::atomic<bool> stuck{false};  // the call exceeded the time limit
    std::atomic<bool> over{false};

    void measure(const DriverCall& call, u32 times, int device) {
      try {
        const cuda::OnDevice on(device);
        const auto begin = Clock::now();
        for (u32 i = 0; i < times && !stuck && Clock::now() - begin < std::chrono::seconds(2); ++i) {
          const auto start = Clock::now();
          void* const it = call.make();
          const auto made_at = Clock::now();
          made.add(made_at - start);
          if (call.undo) {
            undoing = true;
            call.undo(it);
            undone.add(Clock::now() - made_at);
            undoing = false;
          }
          progress += 1;
        }
      } catch (const Error& error) {
        wrong = error.message;
      }
      over = true;
    }
    bool over_within(std::chrono::seconds most) {
      for (const auto start = Clock::now(); !over && Clock::now() - start < most;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!over) stuck = true;
      return over;
    }
  };

  const int device_;
  const u32 side_;
  const u64 copy_bytes_;
};

}  // namespace blockstep::bench
