// The one exception of the host layer. It is thrown only while nothing has been changed yet, or where the core is
// poisoned; the addon turns it into a JavaScript error with the same code.
#pragma once

#include <string>

namespace blockstep {

struct Error {
  const char* code;
  std::string message;
};

// The codes that native code throws; src/core/errors.ts says when.
constexpr const char* kAuthority = "ERR_BLOCKSTEP_AUTHORITY";
constexpr const char* kBadArg = "ERR_BLOCKSTEP_BAD_ARG";
constexpr const char* kBadLog = "ERR_BLOCKSTEP_BAD_LOG";
constexpr const char* kBadReceiver = "ERR_BLOCKSTEP_BAD_RECEIVER";
constexpr const char* kBadSlot = "ERR_BLOCKSTEP_BAD_SLOT";
constexpr const char* kCuda = "ERR_BLOCKSTEP_CUDA";
constexpr const char* kDecisionPending = "ERR_BLOCKSTEP_DECISION_PENDING";
constexpr const char* kDetached = "ERR_BLOCKSTEP_DETACHED";
constexpr const char* kDisposed = "ERR_BLOCKSTEP_DISPOSED";
constexpr const char* kInvariant = "ERR_BLOCKSTEP_INVARIANT";
constexpr const char* kLimit = "ERR_BLOCKSTEP_LIMIT";
constexpr const char* kMirror = "ERR_BLOCKSTEP_MIRROR";
constexpr const char* kNoMemory = "ERR_BLOCKSTEP_NO_MEMORY";
constexpr const char* kNoRow = "ERR_BLOCKSTEP_NO_ROW";
constexpr const char* kNotPinned = "ERR_BLOCKSTEP_NOT_PINNED";
constexpr const char* kRingFull = "ERR_BLOCKSTEP_RING_FULL";

}  // namespace blockstep
