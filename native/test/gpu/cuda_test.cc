// The GPU against the host, through the kernels, the mirror and the core that the addon uses, with
// either side deciding. See comparison.h.
//
//   cuda_test [--steps N] [--seed S] [--device D] [--trust-mapped 1]
//
// Prints one JSON object. Exit codes: 0 all equal, 1 a difference or an error, 2 no usable GPU.
#include "../../cuda/device/cuda_device.h"
#include "../../cuda/device/probe.h"
#include "../workload/comparison.h"

using namespace blockstep;
using namespace blockstep::test;

int main(int argc, char** argv) {
  const u64 steps = option(argc, argv, "--steps", 100000);
  const u64 seed = option(argc, argv, "--seed", 1);
  const u32 gpu = static_cast<u32>(option(argc, argv, "--device", 0));
  // Under a tool that delays launches, the questions of the self-test would come too late.
  if (option(argc, argv, "--trust-mapped", 0) != 0) cuda::trust_mapped_memory();
  const cuda::Probe found = cuda::probe(gpu);
  if (!found.usable) {
    std::fprintf(stderr, "no GPU to test on: %s\n", found.reason.c_str());
    return 2;
  }
  const auto open = [&](const Config& config, u32 max_logs, bool decides) {
    cuda::Options options;
    options.device = gpu;
    options.max_logs = max_logs;
    options.decides = decides;
    return cuda::open(config, options);
  };
  const MakeSubject make = [&](const Config& config, u32 max_logs) {
    std::unique_ptr<Device> device = open(config, max_logs, false);
    auto* opened = static_cast<cuda::CudaDevice*>(device.get());
    return Subject{std::move(device), [opened](u32* ids, u32 count) { opened->read_ids(ids, count); }};
  };
  const MakeDecider make_decider = [&](const Config& config, u32 max_logs) { return open(config, max_logs, true); };
  const std::string header = "  \"device\": \"" + found.reason + "\",\n";
  try {
    compare_all(stdout, header.c_str(), make, make_decider, steps, seed);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code, error.message.c_str());
    return 1;
  }
  return 0;
}
