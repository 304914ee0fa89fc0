// The arguments of the kernels that decide.
#pragma once

#include "../../host/device/device.h"

namespace blockstep::cuda {

/// The memory of decisions, part of Home. All pointers are null if the host decides.
struct Desk {
  u32* batch;              // [batch_words] copy of a batch that arrived through mapped memory
  u32* log;                // [max_log] log of the decision
  u32 max_log;
  u32* decision;           // in mapped memory, at its address for the GPU
  Completion* completion;  // in mapped memory, at its address for the GPU
};

/// Addresses of the kernels, for cudaLaunchKernel(). decide.cu defines their arguments.
struct DecideKernels {
  const void* small;
  const void* large;
  const void* slot;
};
const DecideKernels& decide_kernels();

}  // namespace blockstep::cuda
