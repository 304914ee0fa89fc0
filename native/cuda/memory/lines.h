// The parts of a piece of memory begin on a line of a cache each, so that no two of them share one.
#pragma once

#include "../../core/base/types.h"

namespace blockstep::cuda {

/// Bytes.
constexpr u64 kLine = 64;

/// `bytes`, up to the end of the line of `line` bytes that the last of them is in.
constexpr u64 whole_lines(u64 bytes, u64 line = kLine) { return (bytes + line - 1) / line * line; }

}  // namespace blockstep::cuda
