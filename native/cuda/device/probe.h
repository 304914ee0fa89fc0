// Checks whether a GPU can be used, before it is used.
#pragma once

#include "../base/backend.h"

namespace blockstep::cuda {

/// Checks that there is a driver and GPU `device`. @throws Error kCuda that says what is missing
void require_device(u32 device);

/// Runs every check of probe(). @throws Error kCuda that says what is missing
void require_usable(u32 device);

/// Name and compute capability of a GPU, in words. @throws Error kCuda
std::string name_of(u32 device);

}  // namespace blockstep::cuda
