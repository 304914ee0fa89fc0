// The emulated GPU (gpu_shim/), and the CUDA back end on it: it behaves asynchronously and in
// order, like CUDA, and forbidden accesses fail.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../../cuda/device/cuda_device.h"
#include "../../cuda/device/probe.h"
#include "../workload/comparison.h"

using namespace blockstep;
using namespace blockstep::test;
using blockstep::cuda::DeviceMemory;
using blockstep::cuda::Event;
using blockstep::cuda::MappedMemory;
using blockstep::cuda::require;
using blockstep::cuda::Stream;

static void plant(const char* faults) { setenv("EMULATED_GPU", faults, 1); }

static u64 read_word(const DeviceMemory& memory) {
  u64 word = 0;
  // The back end's streams are not ordered with the default stream.
  require(cudaDeviceSynchronize(), "synchronise");
  require(cudaMemcpy(&word, memory.base(), 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return word;
}

/// A copy reads its source when it runs, not when it is queued. A stream waits for another stream's
/// event.
static void test_order() {
  const cuda::OnDevice on(0);
  MappedMemory pinned(64);
  DeviceMemory device(64);
  Stream first, second;
  Event written;
  volatile u64& word = *reinterpret_cast<u64*>(pinned.base());
  for (u64 round = 1; round < 200; ++round) {
    require(cudaMemcpyAsync(device.base(), pinned.base(), 8, cudaMemcpyHostToDevice, first.get()), "copy");
    require(cudaEventRecord(written.get(), first.get()), "record");
    require(cudaStreamWaitEvent(second.get(), written.get(), 0), "wait");
    require(cudaMemcpyAsync(pinned.base() + 8, device.base(), 8, cudaMemcpyDeviceToHost, second.get()), "copy back");
    require(cudaStreamSynchronize(second.get()), "synchronise");
    EXPECT(reinterpret_cast<u64*>(pinned.base())[1] == round - 1, "round %llu", wide(round));
    EXPECT(cudaEventQuery(written.get()) == cudaSuccess, "the event has passed");
    word = round;
  }
  // Pageable memory was completely read when the call returns.
  u64 here = 7;
  require(cudaMemcpyAsync(device.base(), &here, 8, cudaMemcpyHostToDevice, first.get()), "copy");
  here = 8;
  EXPECT(read_word(device) == 7, "%llu", wide(read_word(device)));
}

/// Captured work does not run at once, but whenever the graph is launched.
static void test_capture() {
  const cuda::OnDevice on(0);
  MappedMemory pinned(64);
  DeviceMemory device(64);
  Stream stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  volatile u64& word = *reinterpret_cast<u64*>(pinned.base());
  require(cudaMemset(device.base(), 0, 64), "memset");
  require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "begin");
  require(cudaMemcpyAsync(device.base(), pinned.base(), 8, cudaMemcpyHostToDevice, stream.get()), "copy");
  require(cudaStreamEndCapture(stream.get(), &graph), "end");
  require(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  word = 5;
  EXPECT(read_word(device) == 0, "it was done at once");
  for (u64 value = 10; value < 13; ++value) {
    word = value;
    require(cudaGraphLaunch(executable, stream.get()), "launch");
    EXPECT(read_word(device) == value, "%llu", wide(value));
  }
  require(cudaGraphExecDestroy(executable), "destroy");
  require(cudaGraphDestroy(graph), "destroy");
  // A query ends a capture in Global mode, except from a thread in Relaxed mode.
  for (const cudaStreamCaptureMode wanted : {cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal}) {
    cudaStreamCaptureMode mode = wanted;
    require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), "begin");
    require(cudaThreadExchangeStreamCaptureMode(&mode), "relax");
    EXPECT(cudaStreamQuery(nullptr) == (wanted == cudaStreamCaptureModeRelaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported),
           "asked in mode %d", wanted);
    require(cudaThreadExchangeStreamCaptureMode(&mode), "back");
    EXPECT(cudaStreamEndCapture(stream.get(), &graph) ==
               (wanted == cudaStreamCaptureModeRelaxed ? cudaSuccess : cudaErrorStreamCaptureInvalidated),
           "the capture");
    require(cudaGraphDestroy(graph), "destroy");
  }
}

/// Runs `touch()` in a separate process. Returns whether the machine stops it.
template <class Touch>
static bool is_stopped(const Touch& touch) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    touch();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/// The host cannot access device memory, and no code can access the memory beside it.
static void test_guards() {
  const cuda::OnDevice on(0);
  DeviceMemory device(256);
  MappedMemory pinned(256);
  require(cudaDeviceSynchronize(), "synchronise");
  EXPECT(is_stopped([&] { *static_cast<volatile u8*>(device.base()) = 1; }), "a write to device memory");
  EXPECT(is_stopped([&] { static_cast<void>(*static_cast<volatile u8*>(device.base())); }), "a read of device memory");
  EXPECT(is_stopped([&] { *static_cast<volatile u8*>(pinned.base() + 256) = 1; }), "a write behind pinned memory");
  EXPECT(!is_stopped([&] { *static_cast<volatile u8*>(pinned.base() + 255) = 1; }), "a write to pinned memory");
}

static void test_faults() {
  plant("memory=1000");
  void* memory = nullptr;
  EXPECT(cudaMalloc(&memory, 1001) == cudaErrorMemoryAllocation, "too much memory");
  plant("fail=2");
  int device = 0;
  const auto call = [&] { return cudaGetDeviceCount(&device); };
  EXPECT(call() == cudaSuccess && call() == cudaErrorInvalidValue && call() == cudaSuccess, "only the second call fails");
  plant("ask=2");
  const auto ask = [&] { return cudaGetDevice(&device); };
  EXPECT(ask() == cudaSuccess && call() == cudaSuccess && ask() == cudaErrorInvalidValue, "the second question fails");
  EXPECT(ask() == cudaSuccess && cudaStreamQuery(nullptr) == cudaSuccess, "no other does");
  plant("none");
  EXPECT(cudaGetDeviceCount(&device) == cudaErrorInsufficientDriver, "no driver");
  plant("");
  EXPECT(cudaGetDeviceCount(&device) == cudaSuccess && device == 1, "%d devices", device);
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 100);
  test_order();
  test_capture();
  test_guards();
  test_faults();
  // Under the thread sanitizer, where a thread for each thread of a block is slow.
  if (steps == 0) {
    std::printf("the emulated GPU works\n");
    return 0;
  }
  const MakeSubject make = [](const Config& config, u32 max_logs) {
    cuda::Options options;
    options.max_logs = max_logs;
    std::unique_ptr<Device> device = cuda::open(config, options);
    auto* opened = static_cast<cuda::CudaDevice*>(device.get());
    return Subject{std::move(device), [opened](u32* ids, u32 count) { opened->read_ids(ids, count); }};
  };
  const MakeDecider make_decider = [](const Config& config, u32 max_logs) {
    cuda::Options options;
    options.max_logs = max_logs;
    options.decides = true;
    return cuda::open(config, options);
  };
  std::FILE* nowhere = std::fopen("/dev/null", "w");
  compare_all(nowhere, "", make, make_decider, steps, 1);
  std::fclose(nowhere);
  std::printf("the emulated GPU works, and the CUDA back end on it agrees with the host over %llu steps\n", wide(steps));
  return 0;
}
