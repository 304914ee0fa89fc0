// lock_file: a lock on a file that ends with its holder.
#pragma once

#include "base/call.h"

namespace blockstep {

/// `lockFile(fd)`: takes the operating system's lock of an open file for this process, without
/// waiting. The lock ends when the file is closed, at the latest when the process ends. @returns
/// null, or why there is no lock: `held`, or the system's error text
/// @throws Error kBadArg
Napi::Value lock_file(const Call& call);

}  // namespace blockstep
