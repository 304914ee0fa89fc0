// Measures up to which size of a run the kernel copies faster than the copy engine.
#pragma once

#include "copier.h"

namespace blockstep::cuda {

/// A calibration starts no measurement after so many milliseconds.
#if defined(GPU_SHIM_THREADS)
constexpr double kMaxCalibrationMs = 2000;  // each thread of a kernel is one of the host, beside other work
#elif defined(GPU_SHIM)
constexpr double kMaxCalibrationMs = 100;  // the emulated GPU is a thread that may not be running
#else
constexpr double kMaxCalibrationMs = 20;
#endif

/// Measures kernel against copy engine for every cut: with `runs` runs, at two sizes of a run, or with fewer where they would be
/// more than 4 MiB. Writes to `bytes` of the cut below which size of a run the kernel is faster. A cut for which there was no time or no memory stays as it is.
/// @param large how the copy engine copies: kBatch or kCopies
/// @returns how long the calibration took, in milliseconds
/// @throws Error kCuda
double calibrate(Direction direction, CopyMode large, cudaStream_t stream, Copier::Cut (&cuts)[Copier::kCuts]);

/// The size of a run, in bytes, at which kernel and copy engine take the same time. The arguments are the kernel's time
/// divided by the copy engine's time, for runs of 4 KiB and of 64 KiB. The result is at most 128 KiB: larger runs go by the copy
/// engine, which leaves the multiprocessors alone.
u32 break_even(double at_small, double at_large);

}  // namespace blockstep::cuda
