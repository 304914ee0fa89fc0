// The parts of a memory range each begin at a cache line, so that no two parts share a line.
#pragma once

#include "../../core/base/types.h"

namespace blockstep::cuda {

/// Bytes of a cache line.
constexpr u64 kLine = 64;

/// `bytes`, rounded up to whole lines of `line` bytes.
constexpr u64 whole_lines(u64 bytes, u64 line = kLine) { return (bytes + line - 1) / line * line; }

}  // namespace blockstep::cuda
