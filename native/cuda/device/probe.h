// Checks whether a GPU can be used, before it is used.
#pragma once

#include "../base/backend.h"

namespace blockstep::cuda {

/// Checks that there is a driver and GPU `device`. @throws Error kCuda that says what is missing
void require_device(u32 device);

/// Runs every check of probe(). What a GPU has passed once in this process it has passed for good: from then on a call makes
/// no launch and only asks whether the GPU is still there. @throws Error kCuda that says what is missing
void require_usable(u32 device);

/// Name and compute capability of a GPU, in words. @throws Error kCuda
std::string name_of(u32 device);

/// For programs under a tool that makes launches wait: mapped memory counts as tested. Before the first require_usable().
void trust_mapped_memory();

/// For tests: no GPU has passed any check yet.
void forget_usable();

}  // namespace blockstep::cuda
