// Measures the cost of a launch itself: kernels that only complete, with parameters of several
// sizes, from several streams.
#pragma once

#include "../figures.h"

namespace blockstep::bench {

/// Measures every rung on the current GPU, and prints its figures. Waits for the GPU.
void climb_ladder(const Effort& effort);

}  // namespace blockstep::bench
