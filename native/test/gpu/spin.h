// A foreign kernel that holds the whole GPU until it is told to end.
#pragma once

#include <cuda_runtime_api.h>

#include "../../core/base/types.h"

namespace blockstep::test {

/// The words that host and kernel share, in pinned memory.
struct SpinWords {
  u64 begun;  // thread blocks that run
  u64 end;    // not 0: they end
};

/// Launches as many thread blocks as fit on the current GPU, in `stream`. They end by themselves
/// after `seconds`. Returns their number. @throws Error kCuda
u32 launch_spin(SpinWords* on_device, u32 seconds, cudaStream_t stream);

}  // namespace blockstep::test
