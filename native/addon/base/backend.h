// Which back ends this build has, and the choice of one for a core.
#pragma once

#include <memory>

#include "../../transfer/block_memory.h"
#include "../../transfer/completion_ring.h"
#include "../../transfer/lane/device_lane.h"
#include "../../reference/device_reference.h"
#include "call.h"

namespace blockstep {

/// Each back end with whether it can be used here, and a reason in words. Takes the number of a GPU.
Napi::Value probe_backends(const Call& call);

/// The names of the back ends that were compiled.
Napi::Value backend_names(Napi::Env env);

/// What a configuration asks for beside the host.
struct MirrorRequest {
  std::unique_ptr<Device> device;  // null: nothing
  u32 max_logs = 0;
};

/// Reads `cuda` of a configuration, and opens the GPU if it is there, to decide if that is its authority.
/// @throws Error kBadArg, kCuda, kNoMemory
MirrorRequest open_mirror(Napi::Value configuration, const HostConfig& config);

/// Zeroed memory where `place` and `device` of a configuration say; absent: the host's, and GPU 0.
/// @throws Error kBadArg, kCuda, kNoMemory
std::unique_ptr<BlockMemory> allocate_blocks(Napi::Value configuration, u64 bytes);

/// A lane of a GPU, as `mode`, `completion`, `cut`, `windowBytes` and `patienceMs` of a configuration say.
/// @throws Error kBadArg, kCuda, kNoMemory
std::unique_ptr<DeviceLane> open_device_lane(const std::shared_ptr<CompletionRing>& ring,
                                             const std::shared_ptr<BlockArena>& source,
                                             const std::shared_ptr<BlockArena>& target, Napi::Value configuration);
/// NativeCudaLaneInfo of src/core/native-transfer.ts.
Napi::Object info_of(const Call& call, const DeviceLaneInfo& info);
/// The number of a GPU, as CUDA counts them. @throws Error kBadArg
u32 read_device(Napi::Value value, const char* name);

/// A reference executor on this GPU. @throws Error kCuda, kNoMemory
std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device);

/// A cudaStream_t as a BigInt; undefined or null: none. @throws Error kBadArg
std::optional<u64> read_stream(Napi::Value value);

}  // namespace blockstep
