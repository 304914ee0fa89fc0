// The kernels, and what they are launched with. A log is applied by one thread block; decide.h has those that decide.
#pragma once

#include "../../host/device/device.h"
#include "../../host/device/self_test.h"
#include "decide.h"
#include "../base/shape.h"

namespace blockstep::cuda {

/// What the kernels work on, in device memory. Each launch gets its address.
struct Home {
  State state;              // its arrays in device memory
  u32* ids;                 // [num_blocks] what the last log took
  u32* staging;             // [slot_words] the log of a ring slot, copied
  Completion* completions;  // [max_logs] in mapped memory, as the device sees it
  Completion* digest;
  u64 digest_sum;           // of the parts that have come to their end
  u32 digest_parts;         // how many these are
  u32 live[kParts];         // live places in each part of the queue
  Desk desk;
};

/// A log that is part of its launch, so that no copy of it has to outlive the call.
template <u32 Words>
struct Letter {
  u32 number;
  u32 slot;
  u32 words;
  u32 log[Words];
};
static_assert(sizeof(Home*) + sizeof(Letter<kSmallWords>) == 4096);
static_assert(sizeof(Home*) + sizeof(Letter<kLargeWords>) == 32764);

/// The kernels by address, as cudaLaunchKernel() wants them; arguments as kernels.cu says.
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
