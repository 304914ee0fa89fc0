#include "copier.h"

#include <algorithm>

#include "calibrate.h"

namespace blockstep::cuda {
namespace {

constexpr u32 kAllRuns = kNone;

/// Where nothing was measured, runs of this many bytes or more go by the copy engine.
constexpr u32 kPlainCut = 28 * 1024;
constexpr u32 kQuad = 16;

}  // namespace

Copier::Copier(const Sides& sides, const DeviceLaneOptions& options, cudaStream_t stream)
    : sides_(sides), stream_(stream), targets_(kMaxBlocks), sources_(kMaxBlocks), sizes_(kMaxBlocks) {
  targets_.clear();
  sources_.clear();
  sizes_.clear();
  const u64 bytes = sides_.bytes_per_block;
  const bool aligned = bytes % kQuad == 0;
  if (!aligned && (options.mode == CopyMode::kKernel || options.cut.value_or(0) != 0)) {
    throw Error{kBadArg, "a kernel copies blocks of a multiple of 16 bytes, got blocks of " + std::to_string(bytes)};
  }
  letter_.source = sides_.source_on_device;
  letter_.target = sides_.target_on_device;
  letter_.quads = static_cast<u32>(bytes / kQuad);

  batches_ = options.mode != CopyMode::kCopies && options.mode != CopyMode::kKernel && batches_work();
  if (options.mode == CopyMode::kBatch && !batches_) throw Error{kCuda, "this driver or this build has no batches of copies"};
  if (options.mode == CopyMode::kKernel) set_cuts(kAllRuns);
  if (options.mode != CopyMode::kAuto || !aligned) return;
  if (options.cut) {
    set_cuts(*options.cut);
  } else if (sides_.direction == Direction::kOnDevice) {
    set_cuts(kAllRuns);  // within one GPU the kernel is faster than the copy engine
  } else {
    set_cuts(kPlainCut);
    calibration_ms_ = calibrate(sides_.direction, mode(), stream_, cuts_);
  }
}

CopyMode Copier::mode() const {
  const bool all = std::all_of(cuts_, cuts_ + kCuts, [](const Cut& cut) { return cut.bytes == kAllRuns; });
  if (all) return CopyMode::kKernel;
  return batches_ ? CopyMode::kBatch : CopyMode::kCopies;
}

void Copier::set_cuts(u32 bytes) {
  for (Cut& cut : cuts_) cut.bytes = bytes;
}

/// The cut, in bytes, of the entry in cuts_ whose number of runs is nearest to `runs`, by ratio.
u32 Copier::cut_for(u32 runs) const {
  u32 at = 0;
  while (at + 1 < kCuts && u64{runs} * runs > u64{cuts_[at].runs} * cuts_[at + 1].runs) ++at;
  return cuts_[at].bytes;
}

void Copier::copy(const Run* runs, u32 count, bool behind_event) {
  const u32 cut = cut_for(count);
  letter_.count = 0;
  targets_.clear();
  sources_.clear();
  sizes_.clear();
  for (u32 i = 0; i < count; ++i) {
    const u64 bytes = runs[i].count * sides_.bytes_per_block;
    if (bytes < cut) add_pairs(runs[i]);
    else add_copy(runs[i], bytes);
  }
  if (letter_.count != 0) launch();
  if (sizes_.empty()) return;
  if (!batches_) {
    require(start_copies(), "cudaMemcpyAsync");
    return;
  }
  // Pinned memory of the host does not change before the copy, so CUDA may read it at any time. A KV cache in use must
  // be read in the order of the stream.
  const bool any_time = sides_.direction == Direction::kToDevice && !behind_event;
  require(start_batch(any_time ? cudaMemcpySrcAccessOrderAny : cudaMemcpySrcAccessOrderStream), "cudaMemcpyBatchAsync");
}

void Copier::add_pairs(const Run& run) {
  for (u32 i = 0; i < run.count; ++i) letter_.pairs[letter_.count++] = {run.source + i, run.target + i};
}

void Copier::add_copy(const Run& run, u64 bytes) {
  targets_.push_back(sides_.target + run.target * sides_.bytes_per_block);
  sources_.push_back(const_cast<u8*>(sides_.source) + run.source * sides_.bytes_per_block);
  sizes_.push_back(static_cast<std::size_t>(bytes));
}

void Copier::launch() {
  const u64 quads = u64{letter_.count} * letter_.quads;
  const u64 tiles = (quads + kThreads * kCopiesAtOnce - 1) / (kThreads * kCopiesAtOnce);
  const auto blocks = static_cast<u32>(std::min<u64>(tiles, kCopyBlocks));
  const void* kernel = letter_.count <= kSmallPairs ? copy_kernels().small : copy_kernels().large;
  void* arguments[] = {&letter_};
  require(cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0, stream_), "launch of copy");
}

cudaError_t Copier::start_copies() {
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const cudaError_t error = cudaMemcpyAsync(targets_[i], sources_[i], sizes_[i], cudaMemcpyDefault, stream_);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

#if CUDART_VERSION >= 12080
/// Queues one batch, with one attribute for all copies: they overlap with kernels where the copy engine can do that.
cudaError_t Copier::start_batch(cudaMemcpySrcAccessOrder order) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = order;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  std::size_t first = 0;
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync(targets_.data(), sources_.data(), sizes_.data(), sizes_.size(), &attributes, &first, 1,
                              stream_);
#else
  std::size_t failed = 0;
  return cudaMemcpyBatchAsync(targets_.data(), sources_.data(), sizes_.data(), sizes_.size(), &attributes, &first, 1,
                              &failed, stream_);
#endif
}

/// Whether batches work. Tries one, because a driver that is older than the runtime may lack them.
bool Copier::batches_work() {
  MappedMemory host(2);
  const bool up = sides_.direction == Direction::kToDevice;
  for (u32 i = 0; i < 2; ++i) {  // only the first byte at `source` or `target` is read
    targets_.push_back(host.base() + i);
    sources_.push_back(up ? sides_.target : const_cast<u8*>(sides_.source));
    sizes_.push_back(1);
  }
  const bool works = start_batch(cudaMemcpySrcAccessOrderStream) == cudaSuccess;
  if (!works) static_cast<void>(cudaGetLastError());
  if (wait_for(stream_, "a batch of copies")) return works;
  host.abandon();
  give_up("a batch of copies", 2);
}
#else
cudaError_t Copier::start_batch(cudaMemcpySrcAccessOrder) { return cudaErrorNotSupported; }
bool Copier::batches_work() { return false; }
#endif

}  // namespace blockstep::cuda
