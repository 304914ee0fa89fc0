// What the kernels that decide are launched with.
#pragma once

#include "../../host/device/device.h"

namespace blockstep::cuda {

/// The memory of decisions, part of Home. All pointers are null where the host decides.
struct Desk {
  u32* batch;              // [batch_words] copy of a batch that came through mapped memory
  u32* log;                // [max_log] the log that the decision writes
  u32 max_log;
  u32* decision;           // in mapped memory, at its address for the GPU
  Completion* completion;  // in mapped memory, at its address for the GPU
};

/// Addresses of the kernels, for cudaLaunchKernel(). decide.cu has their arguments.
struct DecideKernels {
  const void* small;
  const void* large;
  const void* slot;
};
const DecideKernels& decide_kernels();

}  // namespace blockstep::cuda
