// What a decision is launched with.
#pragma once

#include "../../host/device/device.h"

namespace blockstep::cuda {

/// The memory of decisions, part of Home. All null where the host decides.
struct Desk {
  u32* batch;              // [batch_words] a batch that came through mapped memory, copied
  u32* log;                // [max_log] the log that is being written
  u32 max_log;
  u32* decision;           // in mapped memory, as the device sees it
  Completion* completion;  // likewise
};

/// The kernels by address, as cudaLaunchKernel() wants them; arguments as decide.cu says.
struct DecideKernels {
  const void* small;
  const void* large;
  const void* slot;
};
const DecideKernels& decide_kernels();

}  // namespace blockstep::cuda
