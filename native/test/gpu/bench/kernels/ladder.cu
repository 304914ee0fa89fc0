#include "ladder.h"

#include <cuda/ptx>

#include "../../../../cuda/base/shape.h"
#include "../../../../cuda/kernels/launch.cuh"
#include "../../../../cuda/memory/memory.h"

namespace blockstep::bench {
namespace {

using cuda::kThreads;
using cuda::Priority;

/// The GPU's clock at the first and the last instruction of a kernel; 0: not yet.
struct Stamps {
  std::atomic<u64> first;
  std::atomic<u64> last;
};

struct NullHead {
  Completion* completion;  // null: the end of the kernel is reported in another way
  Stamps* stamps;          // null: no stamps
  u32 number;
  u32 early;               // the next kernel may begin early
};
template <u32 Bytes>
struct Null {
  NullHead head;
  u8 rest[Bytes - sizeof(NullHead)];
};

__device__ u64 gpu_time() { return ::cuda::ptx::get_sreg_globaltimer(); }

template <u32 Bytes>
__global__ void __launch_bounds__(kThreads) do_nothing(const __grid_constant__ Null<Bytes> parameter) {
  const NullHead& head = parameter.head;
  const u64 first = head.stamps ? gpu_time() : 0;
  if (head.early) cuda::let_next_kernel_begin();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (head.completion) cuda::complete<cuda::Order::kRelaxed>(head.completion, head.number, 0);
  if (!head.stamps) return;
  cuda::tell<cuda::Order::kRelaxed>(head.stamps->first, first);
  cuda::tell<cuda::Order::kRelaxed>(head.stamps->last, gpu_time());
}

/// Answers each question with the GPU's clock, until the last question.
__global__ void tell_time(Stamps* stamps, u64 last) {
  using Word = ::cuda::atomic_ref<u64, ::cuda::thread_scope_system>;
  Word ask(*reinterpret_cast<u64*>(&stamps->first));
  Word answer(*reinterpret_cast<u64*>(&stamps->last));
  for (u64 question = 0; question < last;) {
    const u64 next = ask.load(::cuda::memory_order_acquire);
    if (next == question) continue;
    question = next;
    answer.store(gpu_time(), ::cuda::memory_order_release);
  }
}

struct Rung {
  const char* name;
  u32 bytes;
  Priority priority = Priority::kHighest;
  bool early = false;         // the kernel allows the next one to begin early
  bool serialization = false;  // it may begin before the previous kernel has ended
  bool by_stream = false;     // the stream writes the word after the kernel
  u32 threads = kThreads;
};

constexpr u32 kBytes[] = {128, 1024, 4096, 8192, 32760};

template <u32 Bytes>
const void* kernel_of() { return cuda::address(&do_nothing<Bytes>); }
const void* kernel_for(u32 bytes) {
  switch (bytes) {
    case kBytes[0]: return kernel_of<kBytes[0]>();
    case kBytes[1]: return kernel_of<kBytes[1]>();
    case kBytes[2]: return kernel_of<kBytes[2]>();
    case kBytes[3]: return kernel_of<kBytes[3]>();
    default: return kernel_of<kBytes[4]>();
  }
}

class Ladder {
 public:
  explicit Ladder(const Effort& effort) : effort_(effort) {}

  /// Runs once without and once with the GPU's clock, which costs the kernel time.
  void climb(const Rung& rung) {
    const cuda::Stream stream(rung.priority);
    Samples whole, launch, start, run, seen;
    repeat(effort_, [&](bool counts) {
      const Sample sample = measure(rung, stream.get(), false);
      if (!counts) return;
      whole.add(sample.seen - sample.begin);
      launch.add(sample.launched - sample.begin);
    });
    find_offset();  // because the two clocks drift apart
    repeat(effort_, [&](bool counts) {
      const Sample sample = measure(rung, stream.get(), true);
      if (!counts) return;
      start.add(sample.first - sample.begin);
      run.add(sample.last - sample.first);
      seen.add(sample.seen - sample.last);
    });
    cuda::require(cudaStreamSynchronize(stream.get()), "the ladder");
    const std::string name = std::string("a kernel of nothing, ") + rung.name;
    print({name}, whole);
    print({name + ", host side"}, launch);
    print({name + ", from its call to its first instruction"}, start);
    print({name + ", from its first instruction to its last"}, run);
    print({name + ", from its last instruction to its word"}, seen);
  }

 private:
  /// Times of the host's clock.
  struct Sample {
    Clock::time_point begin, launched, first, last, seen;
  };

  Sample measure(const Rung& rung, cudaStream_t stream, bool stamped) {
    ++number_;
    Completion* word = rung.by_stream ? nullptr : memory_.on_device(completion_);
    parameter_.head = {word, stamped ? memory_.on_device(stamps_) : nullptr, number_, rung.early};
    stamps_->first = 0;
    stamps_->last = 0;
    Sample sample;
    sample.begin = Clock::now();
    give(rung, stream);
    sample.launched = Clock::now();
    while (completion_->word.load(std::memory_order_acquire) >> 32 != number_) {
    }
    sample.seen = Clock::now();
    while (stamped && (stamps_->first == 0 || stamps_->last == 0)) {  // they arrive in any order
    }
    sample.first = at_host(stamps_->first);
    sample.last = at_host(stamps_->last);
    return sample;
  }
  void give(const Rung& rung, cudaStream_t stream) {
    const void* kernel = kernel_for(rung.bytes);
    void* arguments[] = {&parameter_};
    if (rung.serialization) {
      cudaLaunchAttribute attribute{};
      attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute.val.programmaticStreamSerializationAllowed = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(1);
      config.blockDim = dim3(rung.threads);
      config.stream = stream;
      config.attrs = &attribute;
      config.numAttrs = 1;
      cuda::require(cudaLaunchKernelExC(&config, kernel, arguments), "launch of nothing");
    } else {
      cuda::require(cudaLaunchKernel(kernel, dim3(1), dim3(rung.threads), arguments, 0, stream), "launch of nothing");
    }
    if (!rung.by_stream) return;
    const auto word = reinterpret_cast<CUdeviceptr>(memory_.on_device(&completion_->word));
    cuda::require(static_cast<cudaError_t>(cuda::driver().write_value(stream, word, completion_word(number_, 0), 0)),
                  "cuStreamWriteValue64");
  }

  /// The GPU's clock minus the host's, from the question with the fastest answer. The error is at
  /// most half of that time.
  void find_offset() {
    constexpr u64 kQuestions = 1000;
    const cuda::Stream stream;
    Stamps* there = memory_.on_device(stamps_);
    u64 last = kQuestions;
    stamps_->first = 0;
    void* arguments[] = {&there, &last};
    cuda::require(cudaLaunchKernel(cuda::address(&tell_time), dim3(1), dim3(1), arguments, 0, stream.get()), "launch of a clock");
    Clock::duration least = std::chrono::seconds(1);
    for (u64 question = 1; question <= kQuestions; ++question) {
      stamps_->last.store(0, std::memory_order_release);
      const auto begin = Clock::now();
      stamps_->first.store(question, std::memory_order_release);
      while (stamps_->last.load(std::memory_order_acquire) == 0) {
      }
      const auto end = Clock::now();
      if (end - begin >= least) continue;
      least = end - begin;
      offset_ = static_cast<std::int64_t>(stamps_->last.load()) - (begin + (end - begin) / 2).time_since_epoch().count();
    }
    cuda::require(cudaStreamSynchronize(stream.get()), "a clock");
  }

  Clock::time_point at_host(const std::atomic<u64>& stamp) const {
    return Clock::time_point(Clock::duration(static_cast<std::int64_t>(stamp.load(std::memory_order_acquire)) - offset_));
  }

  const Effort effort_;
  const cuda::MappedMemory memory_{sizeof(Completion) + sizeof(Completion)};
  Completion* const completion_ = reinterpret_cast<Completion*>(memory_.base());
  Stamps* const stamps_ = reinterpret_cast<Stamps*>(completion_ + 1);
  Null<32760> parameter_{};
  std::int64_t offset_ = 0;
  u32 number_ = 0;
};

}  // namespace

void climb_ladder(const Effort& effort) {
  static_assert(std::is_same_v<Clock::period, std::nano>);
  constexpr Rung kRungs[] = {
      {.name = "128 B", .bytes = 128},
      {.name = "1 KB", .bytes = 1024},
      {.name = "4 KB", .bytes = 4096},
      {.name = "8 KB", .bytes = 8192},
      {.name = "32 KB", .bytes = 32760},
      {.name = "4 KB, lowest priority", .bytes = 4096, .priority = Priority::kLowest},
      {.name = "4 KB, one warp", .bytes = 4096, .threads = 32},
      {.name = "4 KB, lets the next begin", .bytes = 4096, .early = true},
      {.name = "4 KB, lets the next begin and begins early", .bytes = 4096, .early = true, .serialization = true},
      {.name = "4 KB, the stream writes the word", .bytes = 4096, .by_stream = true},
  };
  Ladder ladder(effort);
  for (const Rung& rung : kRungs) {
    if (!rung.by_stream || cuda::driver().write_value) ladder.climb(rung);
  }
}

}  // namespace blockstep::bench
