#include "matrix_product.h"

#include <cuda/ptx>

#include <array>
#include <chrono>

#include "../../../../cuda/kernels/launch.cuh"
#include "../../../../cuda/base/shape.h"

namespace blockstep::bench {
namespace {

using cuda::kThreads;

/// The threads of a block form a square, and each computes 4 x 4 of the tile's results.
constexpr u32 kAcross = kThreads == 256 ? 16 : 8;
static_assert(kAcross * kAcross == kThreads);
constexpr u32 kEach = 4;
constexpr u32 kTile = kAcross * kEach;
constexpr u32 kDepth = kAcross;
constexpr u32 kQueued = 3;

/// Block b computes the tiles b, b + gridDim, b + 2 gridDim, ... of c = a * b.
__global__ void __launch_bounds__(kThreads) multiply_tiles(const float* a, const float* b, float* c, u32 side,
                                                           u32 times) {
  __shared__ float of_a[kDepth][kTile];
  __shared__ float of_b[kDepth][kTile];
  const u32 column = threadIdx.x % kAcross;
  const u32 row = threadIdx.x / kAcross;
  const u32 tiles_across = side / kTile;
  const u32 tiles = tiles_across * tiles_across;
  for (u32 turn = blockIdx.x; turn < tiles * times; turn += gridDim.x) {
    const u32 top = turn % tiles / tiles_across * kTile;
    const u32 left = turn % tiles % tiles_across * kTile;
    float sums[kEach][kEach] = {};
    for (u32 depth = 0; depth < side; depth += kDepth) {
      for (u32 i = 0; i < kEach; ++i) {
        of_a[column][row + i * kAcross] = a[u64{top + row + i * kAcross} * side + depth + column];
        of_b[row][column + i * kAcross] = b[u64{depth + row} * side + left + column + i * kAcross];
      }
      __syncthreads();
      for (u32 k = 0; k < kDepth; ++k) {
#pragma unroll
        for (u32 i = 0; i < kEach; ++i) {
#pragma unroll
          for (u32 j = 0; j < kEach; ++j) sums[i][j] += of_a[k][row + i * kAcross] * of_b[k][column + j * kAcross];
        }
      }
      __syncthreads();
    }
    for (u32 i = 0; i < kEach; ++i) {
      for (u32 j = 0; j < kEach; ++j) {
        c[u64{top + row + i * kAcross} * side + left + column + j * kAcross] = sums[i][j];
      }
    }
  }
}

/// The results of measuring kernels.
struct Measured {
  u64 clocks;
  u64 nanoseconds;
};

__global__ void count_clocks(Measured* measured) {
  const u64 start = ::cuda::ptx::get_sreg_globaltimer();
  const auto first = clock64();
  u64 now = start;
  while (now - start < 250000) now = ::cuda::ptx::get_sreg_globaltimer();
  measured->clocks = static_cast<u64>(clock64() - first);
  measured->nanoseconds = now - start;
}

constexpr u32 kCompletions = 200;

/// Completes pieces of work one after another, each with a digest, like a kernel that applies a
/// log.
template <cuda::Order kOrder>
__global__ void complete_many(Completion* completion, Measured* measured) {
  const u64 start = ::cuda::ptx::get_sreg_globaltimer();
  for (u32 number = 1; number <= kCompletions; ++number) cuda::complete<kOrder>(completion, number, 0, start + number);
  measured->nanoseconds = ::cuda::ptx::get_sreg_globaltimer() - start;
}

u32 tiles_of(u32 side) { return side / kTile * (side / kTile); }

void launch_product(const float* a, const float* b, float* c, u32 side, u32 times, u32 blocks, cudaStream_t stream) {
  void* arguments[] = {&a, &b, &c, &side, &times};
  cuda::require(cudaLaunchKernel(cuda::address(&multiply_tiles), dim3(blocks), dim3(kThreads), arguments, 0, stream),
                "launch of a matrix product");
}

u64 matrix_bytes(u32 side) { return u64{side} * side * sizeof(float); }

/// An ordinary stream of normal priority.
class PlainStream {
 public:
  PlainStream() { cuda::require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;
  ~PlainStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

bool copies(Beside what) { return what == Beside::kCopies || what == Beside::kCopiesBack; }

}  // namespace

const char* name_of(Beside beside) {
  switch (beside) {
    case Beside::kIdle: return "idle";
    case Beside::kProduct: return "matrix product";
    case Beside::kPersistent: return "persistent matrix product";
    case Beside::kCopies: return "copies from the host";
    case Beside::kCopiesBack: return "copies to the host";
  }
  return "?";
}

Busy::Busy(Beside what, int device, u32 side, u64 copy_bytes)
    : what_(what),
      device_(device),
      side_(side),
      copy_bytes_(copy_bytes),
      blocks_(tiles_of(side)),
      matrices_(copies(what) ? copy_bytes : 3 * matrix_bytes(side)),
      pinned_(copies(what) ? copy_bytes : 64) {
  if (what == Beside::kIdle) return;
  if (what == Beside::kPersistent) {
    int processors = 0;
    cuda::require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    // As many blocks as fit at once. Another block would wait for a place, and then leave the
    // others' places empty.
    int resident = 0;
    cuda::require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, cuda::address(&multiply_tiles),
                                                                static_cast<int>(kThreads), 0),
                  "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    blocks_ = static_cast<u32>(processors * resident);
  }
  cuda::require(cudaMemset(matrices_.base(), 0, matrices_.bytes()), "cudaMemset");
  // The worker's stream is not ordered with the default stream.
  cuda::require(cudaDeviceSynchronize(), "the matrices");
  worker_ = std::thread([this] { work(); });
  // Until it has certainly begun.
  while (done_ == 0 && !stop_) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (stop_) {
    worker_.join();
    throw Error{kCuda, wrong_};
  }
}

Busy::~Busy() {
  stop_ = true;
  if (worker_.joinable()) worker_.join();
}

void Busy::launch(cudaStream_t stream) {
  if (copies(what_)) {
    const bool up = what_ == Beside::kCopies;
    u8* const ends[] = {pinned_.base(), matrices_.base()};
    cuda::require(cudaMemcpyAsync(ends[up], ends[!up], copy_bytes_, up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream),
                  "cudaMemcpyAsync");
    return;
  }
  auto* a = reinterpret_cast<float*>(matrices_.base());
  const u64 length = u64{side_} * side_;
  launch_product(a, a + length, a + 2 * length, side_, what_ == Beside::kPersistent ? 4 : 1, blocks_, stream);
}

void Busy::work() {
  try {
    cuda::require(cudaSetDevice(device_), "cudaSetDevice");
    PlainStream stream;
    std::array<cuda::Event, kQueued> ends;
    for (u64 given = 0; !stop_; ++given) {
      if (given >= kQueued) {
        const cudaEvent_t oldest = ends[given % kQueued].get();
        cudaError_t status;
        while ((status = cudaEventQuery(oldest)) == cudaErrorNotReady) {
          static_cast<void>(cudaGetLastError());
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        cuda::require(status, "work beside");
        done_ += 1;
      }
      launch(stream.get());
      cuda::require(cudaEventRecord(ends[given % kQueued].get(), stream.get()), "cudaEventRecord");
    }
    cuda::require(cudaStreamSynchronize(stream.get()), "work beside");
  } catch (const Error& error) {
    wrong_ = error.message;
    stop_ = true;
  }
}

OneProduct::OneProduct(u32 side, u32 times) : side_(side), times_(times), matrices_(3 * matrix_bytes(side)) {
  cuda::require(cudaMemsetAsync(matrices_.base(), 0, matrices_.bytes(), stream_.get()), "cudaMemsetAsync");
  run();
}

OneProduct::~OneProduct() {
  if (!cuda::is_over(stream_.get())) matrices_.abandon();
}

void OneProduct::run() {
  auto* a = reinterpret_cast<float*>(matrices_.base());
  const u64 length = u64{side_} * side_;
  launch_product(a, a + length, a + 2 * length, side_, times_, tiles_of(side_), stream_.get());
  cudaError_t status;
  while ((status = cuda::query(stream_.get())) == cudaErrorNotReady) {
  }
  cuda::require(status, "a matrix product");
}

namespace {

/// Runs a measuring kernel of one thread. `arguments` end with the address of its results.
template <class... Arguments>
Measured measure(const void* kernel, Arguments... arguments) {
  const cuda::MappedMemory memory(sizeof(Measured));
  auto* measured = reinterpret_cast<Measured*>(memory.base());
  Measured* target = memory.on_device(measured);
  const cuda::Stream stream;
  void* all[] = {&arguments..., &target};
  cuda::require(cudaLaunchKernel(kernel, dim3(1), dim3(1), all, 0, stream.get()), "launch of a measurement");
  cuda::require(cudaStreamSynchronize(stream.get()), "a measurement");
  return *measured;
}

}  // namespace

double measure_clock() {
  const Measured found = measure(cuda::address(&count_clocks));
  return static_cast<double>(found.clocks) * 1000 / static_cast<double>(found.nanoseconds);
}

CompletionTimes measure_completions() {
  const cuda::MappedMemory memory(sizeof(Completion));
  Completion* completion = memory.on_device(reinterpret_cast<Completion*>(memory.base()));
  const auto each = [&](const void* kernel) {
    measure(kernel, completion);
    return static_cast<double>(measure(kernel, completion).nanoseconds) / kCompletions;
  };
  return {each(cuda::address(&complete_many<cuda::Order::kRelease>)), each(cuda::address(&complete_many<cuda::Order::kRelaxed>))};
}

std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b, u32 side) {
  const cuda::DeviceMemory memory(3 * matrix_bytes(side));
  auto* on_device = reinterpret_cast<float*>(memory.base());
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    cuda::require(cudaMemcpy(to, from, matrix_bytes(side), kind), "cudaMemcpy");
  };
  copy(on_device, a.data(), cudaMemcpyHostToDevice);
  copy(on_device + a.size(), b.data(), cudaMemcpyHostToDevice);
  // A short copy from pageable memory returns before it has arrived, and the stream is not ordered
  // with the stream of the copies.
  cuda::require(cudaDeviceSynchronize(), "the matrices");
  PlainStream stream;
  launch_product(on_device, on_device + a.size(), on_device + 2 * a.size(), side, 1, 2, stream.get());
  cuda::require(cudaStreamSynchronize(stream.get()), "a matrix product");
  std::vector<float> c(a.size());
  copy(c.data(), on_device + 2 * a.size(), cudaMemcpyDeviceToHost);
  return c;
}

}  // namespace blockstep::bench
