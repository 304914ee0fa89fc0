// The kernels on a state, and what they are launched with. One thread block applies one log. decide.h has the kernels
// that decide.
#pragma once

#include "../../host/device/device.h"
#include "../../host/device/self_test.h"
#include "decide.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// What the kernels work on. It lies in device memory; each launch gets its address.
struct Home {
  State state;              // its arrays are in device memory
  u32* ids;                 // [num_blocks] block ids that the last log took
  u32* staging;             // [slot_words] copy of a log that came in a slot
  Completion* completions;  // [max_logs] in mapped memory, at their address for the GPU
  Completion* digest;
  u64 digest_sum;           // sum over the thread blocks of a digest that have ended
  u32 digest_parts;         // how many thread blocks of a digest have ended
  u32 live[kParts];         // live places in each part of the free queue
  Desk desk;
};

/// A log as arguments of a launch. CUDA copies it into the launch, so it need not outlive the call.
template <u32 Words>
struct Letter {
  u32 number;
  u32 slot;
  u32 words;
  u32 log[Words];
};
static_assert(sizeof(Home*) + sizeof(Letter<kSmallWords>) == 4096);
static_assert(sizeof(Home*) + sizeof(Letter<kLargeWords>) == 32764);

/// Addresses of the kernels, for cudaLaunchKernel(). kernels.cu has their arguments.
struct Kernels {
  const void* apply_small;
  const void* apply_large;
  const void* apply_slot;
  const void* initialise;
  const void* count_parts;
  const void* digest_parts;
  const void* answer_mailbox;
};
const Kernels& kernels();

}  // namespace blockstep::cuda
