// Calls of CUDA that may wait for the work of others without end, made so that who calls does not.
#pragma once

#include <functional>

#include "stream.h"

namespace blockstep::cuda {

/// Makes a call in a thread of its own, with `device` as the current GPU. Returns false if the call has not returned within
/// `patience`: the thread goes on with it, for ever if need be, so what the call uses must outlive that.
/// @throws what the call throws; std::system_error
bool returns_in_time(int device, std::function<void()> call, std::chrono::milliseconds patience = kPatience);

}  // namespace blockstep::cuda
