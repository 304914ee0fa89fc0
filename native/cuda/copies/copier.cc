#include "copier.h"

#include <algorithm>

namespace blockstep::cuda {
namespace {

constexpr u32 kQuad = 16;

}  // namespace

Copier::Copier(const Sides& sides, const DeviceLaneOptions& options, cudaStream_t stream)
    : sides_(sides), stream_(stream), mode_(options.mode) {
  const u64 bytes = sides_.bytes_per_block;
  const bool aligned = bytes % kQuad == 0;
  if (!aligned && mode_ == CopyMode::kKernel) {
    throw Error{kBadArg, "bytesPerBlock must be a multiple of 16 for a lane that copies by a kernel, got " +
                             std::to_string(bytes)};
  }
  // The default is the kernel, because on the copy engine the copies of two streams in one
  // direction starve each other, at every priority.
  if (aligned && mode_ == CopyMode::kAuto) mode_ = CopyMode::kKernel;
  if (mode_ == CopyMode::kKernel) {
    letter_.source = sides_.source_on_device;
    letter_.target = sides_.target_on_device;
    letter_.quads = static_cast<u32>(bytes / kQuad);
    return;
  }
  targets_.reserve(kMaxBlocks);
  sources_.reserve(kMaxBlocks);
  sizes_.reserve(kMaxBlocks);
  if (mode_ == CopyMode::kCopies) return;
  const bool batches = batches_work();
  if (!batches && mode_ == CopyMode::kBatch) throw Error{kCuda, "this driver or this build has no batches of copies"};
  mode_ = batches ? CopyMode::kBatch : CopyMode::kCopies;
}

void Copier::copy(const Run* runs, u32 count, bool behind_event) {
  if (mode_ == CopyMode::kKernel) {
    letter_.count = 0;
    for (u32 i = 0; i < count; ++i) add_pairs(runs[i]);
    if (letter_.count != 0) launch();
    return;
  }
  targets_.clear();
  sources_.clear();
  sizes_.clear();
  for (u32 i = 0; i < count; ++i) add_copy(runs[i]);
  if (sizes_.empty()) return;
  if (mode_ == CopyMode::kCopies) {
    require(start_copies(), "cudaMemcpyAsync");
    return;
  }
  // Pinned host memory does not change before the copy, so CUDA may read it at any time. A KV cache
  // in use must be read in stream order.
  const bool any_time = sides_.direction == Direction::kToDevice && !behind_event;
  require(start_batch(any_time ? cudaMemcpySrcAccessOrderAny : cudaMemcpySrcAccessOrderStream), "cudaMemcpyBatchAsync");
}

void Copier::add_pairs(const Run& run) {
  for (u32 i = 0; i < run.count; ++i) letter_.pairs[letter_.count++] = {run.source + i, run.target + i};
}

void Copier::add_copy(const Run& run) {
  targets_.push_back(sides_.target + run.target * sides_.bytes_per_block);
  sources_.push_back(const_cast<u8*>(sides_.source) + run.source * sides_.bytes_per_block);
  sizes_.push_back(static_cast<std::size_t>(run.count * sides_.bytes_per_block));
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
/// Queues one batch, with one attribute for all copies: they overlap with kernels if the copy
/// engine supports it.
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

/// Whether batches work. Tries a batch, because a driver older than the runtime may not support
/// them.
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
