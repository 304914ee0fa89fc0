#include "calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

namespace blockstep::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr u32 kSizes[] = {4 * 1024, 64 * 1024};
/// The most that one measured copy copies: one slab of pinned memory, and a tenth of a millisecond of the bus. Of large runs that is
/// 64: what each costs the copy engine is seen by then, and more of them would say the same.
constexpr u32 kRoom = 4u << 20;
constexpr u32 kMostBytes = 128 * 1024;

/// A measured copy takes less than a millisecond, unless the GPU is busy with something else.
#if defined(GPU_SHIM)
constexpr std::chrono::milliseconds kPatienceOfCopy = kPatience;
#else
constexpr std::chrono::milliseconds kPatienceOfCopy{100};
#endif
struct Busy {};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// One way to copy, with blocks of one size to measure it on, as many as there is room for. The targets stand in reverse order, so
/// every run is one block.
class Rig {
 public:
  Rig(Direction direction, CopyMode mode, const MappedMemory& host, const DeviceMemory& device, u32 size,
      cudaStream_t stream)
      : stream_(stream) {
    u8* const at_host = host.base();
    u8* const mapped = host.on_device(at_host);
    u8* const there = device.base();
    const bool up = direction == Direction::kToDevice;
    const Sides sides = up ? Sides{direction, at_host, there, mapped, there, size}
                           : Sides{direction, there, at_host, there, mapped, size};
    DeviceLaneOptions options;
    options.mode = mode;
    copier_ = std::make_unique<Copier>(sides, options, stream);
    const u32 most = kRoom / size;
    for (u32 i = 0; i < most; ++i) runs_.push_back({i, most - 1 - i, 1});
  }

  /// Milliseconds from the call of copy() until the copies of so many runs, or of as many as there is room for, are done.
  /// @throws Busy
  double time(u32 runs) {
    const u32 count = std::min(runs, static_cast<u32>(runs_.size()));
    const Clock::time_point start = Clock::now();
    copier_->copy(runs_.data(), count, false);
    if (!wait_for(stream_, "a measured copy", kPatienceOfCopy)) throw Busy{};
    return milliseconds_since(start);
  }

 private:
  cudaStream_t stream_;
  std::unique_ptr<Copier> copier_;
  std::vector<Run> runs_;
};

/// Kernel and copy engine, both for blocks of one size.
class Match {
 public:
  Match(Direction direction, CopyMode large, const MappedMemory& host, const DeviceMemory& device, u32 size,
        cudaStream_t stream)
      : kernel_(direction, CopyMode::kKernel, host, device, size, stream),
        engine_(direction, large, host, device, size, stream) {}

  /// The kernel's time for so many runs, divided by the copy engine's.
  double ratio(u32 runs) {
    kernel_.time(runs);  // the first time takes longer
    engine_.time(runs);
    return kernel_.time(runs) / engine_.time(runs);
  }

 private:
  Rig kernel_;
  Rig engine_;
};

/// Measures for one cut after the other while there is time. If a copy does not end, it may use the memory at any time: then
/// the memory is never freed, and the cut and those behind it stay as they are.
void measure(Direction direction, CopyMode large, cudaStream_t stream, Copier::Cut (&cuts)[Copier::kCuts],
             Clock::time_point start) {
  MappedMemory host(kRoom);
  DeviceMemory device(kRoom);
  try {
    Match at_small(direction, large, host, device, kSizes[0], stream);
    Match at_large(direction, large, host, device, kSizes[1], stream);
    for (Copier::Cut& cut : cuts) {
      if (milliseconds_since(start) >= kMaxCalibrationMs) return;
      const double small = at_small.ratio(cut.runs);
      cut.bytes = break_even(small, at_large.ratio(cut.runs));
    }
  } catch (const Busy&) {
    host.abandon();
    device.abandon();
  } catch (...) {
    if (!is_over(stream)) {
      host.abandon();
      device.abandon();
    }
    throw;
  }
}

}  // namespace

/// The size at which a line through the logarithms of both ratios, over the logarithm of the size, crosses ratio 1, behind the
/// larger size too.
u32 break_even(double at_small, double at_large) {
  if (at_small >= 1) return 0;
  if (at_large <= at_small) return kMostBytes;
  const double way = std::log(1 / at_small) / std::log(at_large / at_small);
  return static_cast<u32>(std::min(double{kMostBytes}, kSizes[0] * std::pow(double{kSizes[1]} / kSizes[0], way)));
}

double calibrate(Direction direction, CopyMode large, cudaStream_t stream, Copier::Cut (&cuts)[Copier::kCuts]) {
  const Clock::time_point start = Clock::now();
  try {
    measure(direction, large, stream, cuts, start);
  } catch (const Error& error) {
    if (std::string(error.code) != kNoMemory) throw;  // a KV cache may have taken all the memory
  }
  return milliseconds_since(start);
}

}  // namespace blockstep::cuda
