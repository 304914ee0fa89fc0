// Candidate kernels that apply a log. Figures must justify a candidate before the product adopts
// it.
#pragma once

#include <vector>

#include "../../../../core/base/types.h"

namespace blockstep::bench {

struct ApplyWay {
  const char* name;
  const void* kernel;  // null: the kernel that CudaDevice chooses
  u32 threads;
  u32 words;  // of the longest supported log
};

/// Each change alone, then all of them. The first way is the product's. All support logs of Extend
/// and Publish.
const std::vector<ApplyWay>& apply_ways();

}  // namespace blockstep::bench
