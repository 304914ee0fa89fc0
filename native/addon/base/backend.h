// The back ends of this build, and the parts of JavaScript configurations that concern them.
#pragma once

#include <memory>

#include "../../transfer/block_memory.h"
#include "../../transfer/completion_ring.h"
#include "../../transfer/lane/device_lane.h"
#include "../../reference/device_reference.h"
#include "call.h"

namespace blockstep {

/// Per back end: whether it is usable here, and the reason as text. The argument is the ordinal of
/// a GPU.
Napi::Value probe_backends(const Call& call);

/// The names of the back ends that this build contains.
Napi::Value backend_names(Napi::Env env);

/// The device that a core's configuration requests in addition to the host.
struct MirrorRequest {
  std::unique_ptr<Device> device;  // null: only the host
  u32 max_logs = 0;                // logs that may be outstanding at once
};

/// Reads `cuda` of a configuration, and opens the GPU if `cuda` is given. The device can decide
/// batches if the authority in `config` is the device.
/// @throws Error kBadArg, kCuda, kNoMemory
MirrorRequest open_mirror(Napi::Value configuration, const HostConfig& config);

/// Zeroed memory of `bytes` bytes, at `place` and `device` of a configuration. Defaults: host
/// memory, and GPU 0.
/// @throws Error kBadArg, kCuda, kNoMemory
std::unique_ptr<BlockMemory> allocate_blocks(Napi::Value configuration, u64 bytes);

/// A lane whose copies a GPU makes. `mode`, `completion`, `windowBytes` and `patienceMs` of a
/// configuration are its options.
/// @throws Error kBadArg, kCuda, kNoMemory
std::unique_ptr<DeviceLane> open_device_lane(const std::shared_ptr<CompletionRing>& ring,
                                             const std::shared_ptr<BlockArena>& source,
                                             const std::shared_ptr<BlockArena>& target, Napi::Value configuration);
/// DeviceLaneInfo as the JavaScript object NativeCudaLaneInfo of
/// src/core/native/native-transfer.ts.
Napi::Object info_of(const Call& call, const DeviceLaneInfo& info);
/// The CUDA ordinal of a GPU. @throws Error kBadArg
u32 read_device(Napi::Value value, const char* name);

/// A reference executor on this GPU. @throws Error kCuda, kNoMemory
std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device);

/// Reads a cudaStream_t as a BigInt. Undefined or null: no stream. @throws Error kBadArg
std::optional<u64> read_stream(Napi::Value value);

}  // namespace blockstep
