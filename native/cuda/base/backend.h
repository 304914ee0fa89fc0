// The addon's interface to the CUDA back end: whether it is usable here, and the objects that it
// can open. This header includes no CUDA header.
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

/// Options of open().
struct Options {
  u32 device = 0;             // CUDA ordinal of the GPU
  std::optional<u64> stream;  // the executor's cudaStream_t; none: the device makes a stream
  u32 max_logs = 2;           // logs that may be outstanding at once
  bool launch_thread = false;  // the device's own thread launches logs; `stream` must be none
  bool decides = false;       // the device also allocates the memory to decide batches
};

struct Probe {
  bool usable;
  std::string reason;  // if usable, its name and capability; else why not
};

/// Checks that there is a driver and GPU `device`, that the GPU can run the kernels of this build,
/// and that mapped memory works. Makes a CUDA context, which takes some tenths of a second. Throws
/// only std::bad_alloc.
Probe probe(u32 device);

/// Probes the GPU, and makes an initialised State there. @throws Error kCuda, kNoMemory
std::unique_ptr<Device> open(const Config& pool, const Options& options);

/// Zeroed memory for an arena. kHost ignores `device`. @throws Error kCuda, kNoMemory
std::unique_ptr<BlockMemory> allocate_blocks(Place place, u32 device, u64 bytes);

/// A lane between two arenas: at least one on a GPU, the other in pinned memory or on the same GPU.
/// @throws Error kBadArg for other arenas, kCuda, kNoMemory
std::unique_ptr<DeviceLane> open_lane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                                      std::shared_ptr<BlockArena> target, const DeviceLaneOptions& options);
/// Probes the GPU, and makes a reference executor there. @throws Error kCuda, kNoMemory;
/// std::bad_alloc
std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device);

}  // namespace blockstep::cuda
