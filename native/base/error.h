// Error: the only exception type of native code, apart from std::bad_alloc. An operation throws it
// before it has changed anything, or because the core is poisoned. The addon turns it into a
// JavaScript error with the same code.
#pragma once

#include <string>

namespace blockstep {

struct Error {
  const char* code;
  std::string message;
};

// The codes that native code throws; src/base/errors.ts documents when. Each code is one object
// with one address, so codes may be compared by address.
inline constexpr char kAuthority[] = "ERR_BLOCKSTEP_AUTHORITY";
inline constexpr char kBadArg[] = "ERR_BLOCKSTEP_BAD_ARG";
inline constexpr char kBadLog[] = "ERR_BLOCKSTEP_BAD_LOG";
inline constexpr char kBadReceiver[] = "ERR_BLOCKSTEP_BAD_RECEIVER";
inline constexpr char kBadSlot[] = "ERR_BLOCKSTEP_BAD_SLOT";
inline constexpr char kCuda[] = "ERR_BLOCKSTEP_CUDA";
inline constexpr char kDecisionPending[] = "ERR_BLOCKSTEP_DECISION_PENDING";
inline constexpr char kDetached[] = "ERR_BLOCKSTEP_DETACHED";
inline constexpr char kDisposed[] = "ERR_BLOCKSTEP_DISPOSED";
inline constexpr char kInvariant[] = "ERR_BLOCKSTEP_INVARIANT";
inline constexpr char kLimit[] = "ERR_BLOCKSTEP_LIMIT";
inline constexpr char kMirror[] = "ERR_BLOCKSTEP_MIRROR";
inline constexpr char kNoMemory[] = "ERR_BLOCKSTEP_NO_MEMORY";
inline constexpr char kNoRow[] = "ERR_BLOCKSTEP_NO_ROW";
inline constexpr char kNotPinned[] = "ERR_BLOCKSTEP_NOT_PINNED";
inline constexpr char kRingFull[] = "ERR_BLOCKSTEP_RING_FULL";

}  // namespace blockstep
