// Other kernels that apply a log, which a figure has to speak for before the product has one of them.
#pragma once

#include <vector>

#include "../../../../core/base/types.h"

namespace blockstep::bench {

struct ApplyWay {
  const char* name;
  const void* kernel;  // null: the one that CudaDevice chooses
  u32 threads;
  u32 words;  // of the longest log that it takes
};

/// Each change alone, then all of them; the first is the product as it is. All take a log of Extend and Publish.
const std::vector<ApplyWay>& apply_ways();

}  // namespace blockstep::bench
