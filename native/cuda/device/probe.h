// Checks whether a GPU can be used, before it is used.
#pragma once

#include "../base/backend.h"

namespace blockstep::cuda {

/// Checks that there is a driver and GPU `device`. @throws Error kCuda that names the missing part
void require_device(u32 device);

/// Runs every check of probe(). A GPU needs to pass only once per process. Later calls launch no
/// kernel and only check that the GPU still exists. @throws Error kCuda that names the missing part
void require_usable(u32 device);

/// Name and compute capability of a GPU, as text. @throws Error kCuda
std::string name_of(u32 device);

/// Makes mapped memory count as tested, for programs under a tool that delays launches. Call it
/// before the first require_usable().
void trust_mapped_memory();

/// For tests: forgets the checks that GPUs have passed.
void forget_usable();

}  // namespace blockstep::cuda
