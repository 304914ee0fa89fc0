#include "../base/call.h"
#include "../kernels/copy.h"
#include "../kernels/gather.h"
#include "../kernels/kernels.h"
#include "probe.h"

namespace blockstep::cuda {
namespace {

/// A version of CUDA in words: 13020 is 13.2.
std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// Why CUDA can use no GPU, in words. `error` is the result of cudaGetDeviceCount().
std::string why_no_device(cudaError_t error) {
  int driver = 0;
  int runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) return "no CUDA driver: " + describe(error);
  return "CUDA cannot be used: " + describe(error) + "; the driver is for CUDA " + version(driver) +
         ", this build for " + version(runtime);
}

/// Loads all kernels now. CUDA would load a kernel at its first use, and might wait there for other work on the GPU.
void load_kernels() {
  const Kernels& all = kernels();
  const GatherKernels& gather = gather_kernels(false);
  const GatherKernels& by_group = gather_kernels(true);
  const CopyKernels& copy = copy_kernels();
  const DecideKernels& decide = decide_kernels();
  for (const void* kernel : {all.apply_small, all.apply_large, all.apply_slot, all.initialise, all.count_parts,
                             all.digest_parts, all.answer_mailbox, gather.small, gather.large, gather.staged,
                             gather.fetch, by_group.small, by_group.large, by_group.staged, copy.small, copy.large, decide.small, decide.large, decide.slot}) {
    cudaFuncAttributes attributes;
    require(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
  }
}

/// Runs the self-test of mapped memory once. Returns what is wrong with the memory; null: it works.
const char* try_mapped_memory() {
  MappedMemory memory(sizeof(Mailbox));
  Stream stream;
  auto& mailbox = *reinterpret_cast<Mailbox*>(memory.base());
  Mailbox* argument = memory.on_device(&mailbox);
  const auto start = [&] {
    void* arguments[] = {&argument};
    require(cudaLaunchKernel(kernels().answer_mailbox, dim3(1), dim3(1), arguments, 0, stream.get()),
            "launch of the self-test");
  };
  const auto ended = [&] { return query(stream.get()) != cudaErrorNotReady; };
  const char* wrong = self_test(mailbox, start, ended);
  require(cudaStreamSynchronize(stream.get()), "the self-test");  // it ends by itself
  return wrong;
}

/// Runs the self-test up to three times: it fails by chance if the host thread did not run for too long, and always if
/// mapped memory does not work.
const char* test_mapped_memory() {
  const char* wrong = nullptr;
  for (u32 tries = 0; tries < 3; ++tries) {
    wrong = try_mapped_memory();
    if (!wrong) return nullptr;
  }
  return wrong;
}

}  // namespace

void require_device(u32 device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw Error{kCuda, why_no_device(error)};
  }
  if (device >= static_cast<u32>(count)) {
    throw Error{kCuda, "there is no GPU " + std::to_string(device) + ": CUDA sees " + std::to_string(count)};
  }
}

void require_usable(u32 device) {
  require_device(device);
  const OnDevice on(static_cast<int>(device));
  int can_map = 0;
  require(cudaDeviceGetAttribute(&can_map, cudaDevAttrCanMapHostMemory, static_cast<int>(device)),
          "cudaDeviceGetAttribute");
  if (!can_map) throw Error{kCuda, "the GPU cannot map host memory"};
  load_kernels();
  if (const char* wrong = test_mapped_memory()) throw Error{kCuda, std::string("mapped memory self-test failed: ") + wrong};
}

std::string name_of(u32 device) {
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, static_cast<int>(device)), "cudaGetDeviceProperties");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor);
}

Probe probe(u32 device) {
  try {
    require_usable(device);
    return {true, name_of(device)};
  } catch (const Error& error) {
    return {false, error.message};
  }
}

}  // namespace blockstep::cuda
