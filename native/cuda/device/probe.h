// Whether a GPU can be used, asked before it is used.
#pragma once

#include "../base/backend.h"

namespace blockstep::cuda {

/// Is there a driver and such a GPU? @throws Error kCuda saying what is missing
void require_device(u32 device);

/// Runs every check of probe(). @throws Error kCuda saying what is missing
void require_usable(u32 device);

/// Name and compute capability. @throws Error kCuda
std::string name_of(u32 device);

}  // namespace blockstep::cuda
