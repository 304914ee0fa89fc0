// CUDA calls that may wait without limit for other work, made so that the caller does not.
#pragma once

#include <functional>

#include "stream.h"

namespace blockstep::cuda {

/// Makes a call in a separate thread, with `device` as the current GPU. Returns false if the call
/// has not returned within `patience`. The thread then continues the call, possibly forever, so the
/// memory that the call uses must outlive it.
/// @throws exceptions of the call; std::system_error
bool returns_in_time(int device, std::function<void()> call, std::chrono::milliseconds patience = kPatience);

}  // namespace blockstep::cuda
