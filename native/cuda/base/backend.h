// What the addon sees of CUDA: whether it can be used here, and what it opens. This file includes no CUDA header.
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

struct Options {
  u32 device = 0;             // which GPU, as CUDA counts them
  std::optional<u64> stream;  // the executor's cudaStream_t, to which all launches go. None: a stream of our own.
  u32 max_logs = 2;           // outstanding at once
  bool decides = false;       // the device also has memory to decide batches
};

struct Probe {
  bool usable;
  std::string reason;  // the GPU by name, or why it cannot be used
};

/// Is there a driver and such a GPU, can it run our kernels, and does mapped memory work? Makes a CUDA context, which
/// takes some tenths of a second. Never throws but std::bad_alloc.
Probe probe(u32 device);

/// A state on the GPU, in its initial state, after a probe. @throws Error kCuda, kNoMemory
std::unique_ptr<Device> open(const Config& pool, const Options& options);

/// Zeroed memory of an arena. `device` does not matter for kHost. @throws Error kCuda, kNoMemory
std::unique_ptr<BlockMemory> allocate_blocks(Place place, u32 device, u64 bytes);

/// A lane between two arenas, of which at least one is on a GPU and the other in pinned memory or on the same GPU.
/// @throws Error kBadArg for others, kCuda, kNoMemory
std::unique_ptr<DeviceLane> open_lane(std::shared_ptr<CompletionRing> ring, std::shared_ptr<BlockArena> source,
                                      std::shared_ptr<BlockArena> target, const DeviceLaneOptions& options);
/// A reference executor on the GPU, after a probe. @throws Error kCuda, kNoMemory; std::bad_alloc
std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device);

}  // namespace blockstep::cuda
