// Faults of commands, and how the members of a team agree on a fault.
#pragma once

#include "team.h"

namespace blockstep {

/// A fault names the promise that the author of a log or batch broke. It is never a normal answer.
/// For example, a lack of free blocks is noticed before a log is written. After a fault, no command
/// is applied.
enum Fault : u32 {
  kNoFault = 0,
  kBadCommand,        // unknown op, payload past the end of the log, Extend of no blocks, malformed batch
  kRowInUse,          // Open of a row that is in use
  kRowNotInUse,       // Extend, Publish or Release of a row that is not in use
  kRowRepeated,       // Extend names a row twice
  kRowTooLong,        // more blocks than max_blocks_per_row
  kNoFreeBlocks,      // Extend needs more blocks than are free
  kResultsFull,       // more ids than Results::ids holds, or a full log in decide()
  kNoSuchBlock,       // Publish of an index past the end of the row
  kAlreadyPublished,  // Publish of a block that carries a key
  kRefUnderflow,      // Release of a block without references, or Unpin of a block without pins
  kBlocksInUse,       // Reset while a block is in use
  kNumFaults,
};

/// A fault in words, for error messages.
inline const char* describe(u32 fault) {
  switch (fault) {
    case kNoFault: return "no fault";
    case kBadCommand: return "malformed command";
    case kRowInUse: return "row is in use";
    case kRowNotInUse: return "row is not in use";
    case kRowRepeated: return "row is named twice";
    case kRowTooLong: return "row is too long";
    case kNoFreeBlocks: return "not enough free blocks";
    case kResultsFull: return "result buffer is full";
    case kNoSuchBlock: return "no such block in the row";
    case kAlreadyPublished: return "block is already published";
    case kRefUnderflow: return "reference count would fall below zero";
    case kBlocksInUse: return "blocks are in use";
    default: return "unknown fault";
  }
}

/// The fault of the whole team: kNoFault, or the lowest code that any member found. All members get
/// the same answer. Synchronises.
template <Team T>
BLOCKSTEP_HD inline u32 agree(T& team, u32 fault) {
  if (!any(team, fault != kNoFault)) return kNoFault;
  BLOCKSTEP_ROLLED
  for (u32 code = 1; code < kNumFaults; ++code) {
    if (any(team, fault == code)) return code;
  }
  return kBadCommand;
}

/// The lower code of two faults that one member found. `found` is a fault, `fault` may be kNoFault.
BLOCKSTEP_HD inline u32 lower(u32 fault, u32 found) { return fault != kNoFault && fault < found ? fault : found; }

}  // namespace blockstep
