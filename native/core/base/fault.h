// What a command can fail with, and how the members of a team agree on it.
#pragma once

#include "team.h"

namespace blockstep {

/// A fault is a broken promise of the author of a log, never a normal answer. Nothing is applied after it.
enum Fault : u32 {
  kNoFault = 0,
  kBadCommand,        // unknown op, a payload that runs past the end of the log, or an Extend of no blocks
  kRowInUse,          // Open of a row that is in use
  kRowNotInUse,       // Extend, Publish or Release of a row that is not
  kRowRepeated,       // Extend names a row twice
  kRowTooLong,        // more blocks than max_blocks_per_row
  kNoFreeBlocks,      // Extend wants more blocks than are free
  kResultsFull,       // Extend takes more ids than Results::ids holds
  kNoSuchBlock,       // Publish of an index past the end of the row
  kAlreadyPublished,  // Publish of a block that carries a key
  kRefUnderflow,      // Release of a block that nobody holds, or Unpin of one that is not pinned
  kBlocksInUse,       // Reset while a block is in use
  kNumFaults,
};

/// A fault in words, for messages.
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

/// The fault of the whole team: kNoFault if no member found one, otherwise the lowest code found, whoever found it.
/// Synchronises.
template <Team T>
BLOCKSTEP_HD inline u32 agree(T& team, u32 fault) {
  if (!any(team, fault != kNoFault)) return kNoFault;
  for (u32 code = 1; code < kNumFaults; ++code) {
    if (any(team, fault == code)) return code;
  }
  return kBadCommand;
}

/// Of two faults found by one member, the one to report.
BLOCKSTEP_HD inline u32 lower(u32 fault, u32 found) { return fault != kNoFault && fault < found ? fault : found; }

}  // namespace blockstep
