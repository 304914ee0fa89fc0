// Reads and checks NativeConfig of src/core/native/native.ts.
#pragma once

#include "../base/call.h"

namespace blockstep {

/// Reads the configuration. Its getters may run JavaScript. @throws Error kBadArg
HostConfig read_configuration(Napi::Value value);

/// Checks that `value` is an exchange buffer of the right size. Runs JavaScript only if user code
/// tampered with the buffer.
/// @throws Error kBadArg, kDetached
Exchange read_exchange(Napi::Value value, const HostConfig& config);

}  // namespace blockstep
