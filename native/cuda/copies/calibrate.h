// Up to which size the kernel copies faster than the copy engine.
#pragma once

#include "copier.h"

namespace blockstep::cuda {

/// A calibration ends after so many milliseconds, once the measurement under way is done.
constexpr double kMaxCalibrationMs = 20;

/// Measures kernel against copy engine at two sizes, for as many runs as each cut says, and writes below how many bytes
/// the kernel is faster. A cut for which there was no time or no memory stays as it is. @returns how long it took, in
/// milliseconds
/// @throws Error kCuda
double calibrate(Direction direction, CopyMode large, cudaStream_t stream, Copier::Cut (&cuts)[Copier::kCuts]);

/// The bytes of a run at which both take the same time. The arguments are the kernel's time divided by the copy
/// engine's, at 4 KiB and at 24 KiB. The answer is at most 28 KiB: runs that are more than a little above the larger
/// size go by the copy engine, however fast the kernel was there.
u32 break_even(double at_small, double at_large);

}  // namespace blockstep::cuda
