#include "device_tables.h"

#include <cstring>

namespace blockstep::cuda {
namespace {

/// Arrays begin at multiples of this. cudaMalloc() promises the same, and it suffices for the widest loads.
constexpr u64 kAlignment = 256;
constexpr u64 whole(u64 bytes, u64 unit) { return (bytes + unit - 1) / unit * unit; }

/// Words that one slot takes: the longest message, in whole lines of 64 bytes.
u64 slot_stride(const TablesShape& shape) { return whole(max_gather_words(shape) * 4, 64) / 4; }

/// Lays out everything in device memory from `base` on, and returns how many bytes it takes. `base` may be null.
u64 lay_out_site(GatherSite& site, u32*& staging, const TablesShape& shape, u8* base) {
  u64 used = 0;
  const auto place = [&](auto*& array, u64 count) {
    using Element = std::remove_reference_t<decltype(*array)>;
    array = base ? reinterpret_cast<Element*>(base + used) : nullptr;
    used += whole(count * sizeof(Element), kAlignment);
  };
  place(site.at.slot_mapping, shape.max_tokens);
  place(site.at.input_ids, shape.max_tokens);
  place(site.at.query_start, u64{shape.max_entries} + 1);
  place(site.at.seq_lens, shape.max_entries);
  place(site.at.num_computed, shape.max_entries);
  place(site.at.block_table, u64{shape.max_entries} * shape.max_blocks_per_row);
  place(site.ended, 1);
  place(site.contents, u64{2} * shape.max_entries);
  place(staging, slot_stride(shape));
  return used;
}

u64 device_bytes(const TablesShape& shape) {
  GatherSite site{};
  u32* staging = nullptr;
  return lay_out_site(site, staging, shape, nullptr);
}

}  // namespace

CudaTables::CudaTables(const State& state, const TablesShape& shape, u32 block_size, u32 num_slots, int device,
                       cudaStream_t stream)
    : device_(device),
      stream_(stream),
      slot_words_(slot_stride(shape)),
      mapped_(sizeof(Completion) + num_slots * slot_words_ * 4),
      memory_(cuda::device_bytes(shape)),
      completion_(reinterpret_cast<Completion*>(mapped_.base())),
      slots_(reinterpret_cast<u32*>(completion_ + 1)) {
  lay_out_site(site_, staging_, shape, memory_.base());
  site_.rows = state.rows;
  site_.row_blocks = state.row_blocks;
  site_.completion = mapped_.on_device(completion_);
  site_.max_entries = shape.max_entries;
  site_.max_blocks_per_row = shape.max_blocks_per_row;
  site_.block_size = block_size;
  descriptor_ = describe_tables(site_.at, shape, static_cast<u32>(device), block_size);
  pad();
}

/// Fills the tables as for an empty plan. Row contents and messages need no initial value: they are written before they
/// are read.
void CudaTables::pad() {
  const auto* const zeroed = reinterpret_cast<u8*>(site_.at.query_start);
  const auto minus_ones = static_cast<std::size_t>(zeroed - memory_.base());
  const auto zeros = static_cast<std::size_t>(reinterpret_cast<u8*>(site_.contents) - zeroed);
  require(cudaMemsetAsync(memory_.base(), 0xff, minus_ones, stream_), "cudaMemsetAsync");
  require(cudaMemsetAsync(site_.at.query_start, 0, zeros, stream_), "cudaMemsetAsync");
}

void CudaTables::gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) {
  letter_.head = head;
  std::memcpy(letter_.words, words, u64{count} * 4);
  // The small kernel's letter has the layout of the beginning of letter_.
  void* arguments[] = {&site_, &letter_};
  launch(carrier == Carrier::kSmall ? gather_kernels().small : gather_kernels().large,
         gather_blocks(head, site_.max_entries), arguments, "launch of gather");
  last_number_ = head.number;
}

void CudaTables::gather_slot(const GatherHead& head, u32 index, u32 count) {
  const u32* mapped = mapped_.on_device(slot(index));
  u64 words = count;
  void* of_fetch[] = {&staging_, &mapped, &words};
  launch(gather_kernels().fetch, (count + kFetchWords - 1) / kFetchWords, of_fetch, "launch of gather");
  GatherHead of_gather = head;
  void* arguments[] = {&site_, &of_gather, &staging_};
  launch(gather_kernels().staged, gather_blocks(head, site_.max_entries), arguments, "launch of gather");
  last_number_ = head.number;
}

void CudaTables::launch(const void* kernel, u32 blocks, void** arguments, const char* what) {
  const OnDevice on(device_);
  require(cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0, stream_), what);
}

void CudaTables::read(Table which, void* out) {
  const OnDevice on(device_);
  const blockstep_array& array = array_of(descriptor_, which);
  const void* from = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(array.data));
  const auto bytes = static_cast<std::size_t>(bytes_of(array));
  require(cudaMemcpyAsync(out, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  require(cudaStreamSynchronize(stream_), "work on the GPU");
}

bool CudaTables::at_work() const {
  return static_cast<u32>(completion_->word.load(std::memory_order_acquire) >> 32) != last_number_;
}

}  // namespace blockstep::cuda
