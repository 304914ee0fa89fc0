// Where the kernel stops to be faster than the copy engine.
#pragma once

#include "copier.h"

namespace blockstep::cuda {

/// What a calibration takes at most, but for the measurement at hand.
constexpr double kMaxCalibrationMs = 20;

/// Measures kernel against copy engine at two sizes, for as many runs as each cut says, and writes below how many bytes the
/// kernel is faster. What there was no time or no memory for stays as it is. @returns how long it took, in milliseconds
/// @throws Error kCuda
double calibrate(Direction direction, CopyMode large, cudaStream_t stream, Copier::Cut (&cuts)[Copier::kCuts]);

/// The bytes of a run at which both take the same time, given how long the kernel takes, in times of the copy engine, at 4 KiB
/// and at 24 KiB. At most 28 KiB: what is not a little above the larger size goes by the copy engine, however fast the
/// kernel was there.
u32 break_even(double at_small, double at_large);

}  // namespace blockstep::cuda
