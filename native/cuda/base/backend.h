// What the addon sees of the CUDA back end: whether it can be used here, and what it can open. No CUDA header is
// included here.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "../../transfer/block_memory.h"
#include "../../transfer/completion_ring.h"
#include "../../host/device/device.h"
#include "../../transfer/lane/device_lane.h"
#include "../../reference/device_reference.h"

namespace blockstep::cuda {

/// How open() sets up a device.
struct Options {
  u32 device = 0;             // number of the GPU, as CUDA counts
  std::optional<u64> stream;  // the executor's cudaStream_t, to which all launches go; none: the device makes its own
  u32 max_logs = 2;           // logs that may be outstanding at once
  bool launch_thread = false;  // logs are launched by a thread of the device's own; `stream` must be none
  bool decides = false;       // the device also gets the memory to decide batches
};

struct Probe {
  bool usable;
  std::string reason;  // usable: name and compute capability of the GPU; otherwise why it cannot be used
};

/// Checks that there is a driver and GPU `device`, that the GPU can run the kernels of this build, and that mapped
/// memory works. Makes a CUDA context, which takes some tenths of a second. Throws nothing but std::bad_alloc.
Probe probe(u32 device);

/// Probes the GPU, and makes a State there, in its initial state. @throws Error kCuda, kNoMemory
std::unique_ptr<Device> open(const Config& pool, const Options& options);

/// Zeroed memory for an arena. `device` is not used for kHost. @throws Error kCuda, kNoMemory
std::unique_ptr<BlockMemory> allocate_blocks(Place place, u32 device, u64 bytes);

/// A lane between two arenas: at least one is on a GPU, the other is in pinned memory or on the same GPU.
/// @throws Error kBadArg for other arenas, kCuda, kNoMemory
std::unique_ptr<DeviceLane> open_lane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                                      std::shared_ptr<BlockArena> target, const DeviceLaneOptions& options);
/// Probes the GPU, and makes a reference executor there. @throws Error kCuda, kNoMemory; std::bad_alloc
std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device);

}  // namespace blockstep::cuda
