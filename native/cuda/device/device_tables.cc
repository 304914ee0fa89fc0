#include "device_tables.h"

#include <cstring>

namespace blockstep::cuda {
namespace {

/// Arrays begin at multiples of this. cudaMalloc() guarantees the same, and it suffices for the
/// widest loads.
constexpr u64 kAlignment = 256;
constexpr u64 whole(u64 bytes, u64 unit) { return (bytes + unit - 1) / unit * unit; }

/// A read waits for all work of the stream.
constexpr std::chrono::milliseconds kReadPatience{60000};

/// Words of one slot: the longest message, in whole lines of 64 bytes.
u64 slot_stride(const TablesShape& shape) { return whole(max_gather_words(shape) * 4, 64) / 4; }

/// The contents of device memory.
struct Layout {
  GatherSite site{};
  GroupSite groups[kMaxGroups] = {};  // as in device memory
  GroupSite* groups_there = nullptr;
  u32* staging = nullptr;
  u64 bytes = 0;
};

/// Lays out the device memory from `base` on, which may be null. The tables come first, starting
/// with the tables whose padding is -1. The counts of thread blocks, which begin as zeros, follow
/// them.
Layout lay_out_site(const TablesShape& shape, u8* base) {
  Layout layout;
  GatherSite& site = layout.site;
  u64 used = 0;
  const auto place = [&](auto*& array, u64 count) {
    using Element = std::remove_reference_t<decltype(*array)>;
    array = base ? reinterpret_cast<Element*>(base + used) : nullptr;
    used += whole(count * sizeof(Element), kAlignment);
  };
  for (u32 list = 0; list < shape.num_lists(); ++list) place(layout.groups[list].at.slot_mapping, shape.max_tokens);
  place(site.at.input_ids, shape.max_tokens);
  place(site.at.query_start, u64{shape.max_entries} + 1);
  place(site.at.seq_lens, shape.max_entries);
  place(site.at.num_computed, shape.max_entries);
  for (u32 list = 0; list < shape.num_lists(); ++list) {
    place(layout.groups[list].at.block_table, u64{shape.max_entries} * shape.blocks_per_row(list));
  }
  place(site.counts, 1);
  for (u32 list = 0; list < shape.num_lists(); ++list) place(layout.groups[list].contents, u64{2} * shape.max_entries);
  place(layout.staging, slot_stride(shape));
  if (shape.num_groups != 0) place(layout.groups_there, shape.num_groups);
  layout.bytes = used;

  site.at.slot_mapping = layout.groups[0].at.slot_mapping;
  site.at.block_table = layout.groups[0].at.block_table;
  if (shape.num_groups == 0) site.contents = layout.groups[0].contents;
  else site.groups = layout.groups_there;
  for (u32 g = 0; g < shape.num_groups; ++g) {
    layout.groups[g].block_size = shape.groups[g].block_size;
    layout.groups[g].max_blocks_per_row = shape.groups[g].max_blocks_per_row;
    layout.groups[g].moves = shape.groups[g].moves;
  }
  return layout;
}

/// Whether a kernel may begin before the previous kernel has ended.
bool can_begin_early(int device) {
  int major = 0;
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major >= 9;
}

}  // namespace

CudaTables::CudaTables(const State& state, const TablesShape& shape, u32 block_size, u32 num_slots, int device,
                       cudaStream_t stream, bool is_own, LaunchThread* launches)
    : device_(device),
      stream_(stream),
      launches_(launches),
      is_own_(is_own),
      can_begin_early_(can_begin_early(device)),
      slot_words_(slot_stride(shape)),
      mapped_(sizeof(Completion) + num_slots * slot_words_ * 4 + sizeof(Layout::groups)),
      memory_(lay_out_site(shape, nullptr).bytes),
      completion_(reinterpret_cast<Completion*>(mapped_.base())),
      slots_(reinterpret_cast<u32*>(completion_ + 1)),
      num_lists_(shape.num_lists()) {
  const Layout layout = lay_out_site(shape, memory_.base());
  site_ = layout.site;
  staging_ = layout.staging;
  site_.rows = state.rows;
  site_.row_blocks = state.row_blocks;
  site_.completion = mapped_.on_device(completion_);
  site_.max_entries = shape.max_entries;
  site_.max_blocks_per_row = state.config.max_blocks_per_row;
  site_.block_size = block_size;
  site_.num_groups = shape.num_groups;
  GroupTables groups[kMaxGroups];
  for (u32 list = 0; list < num_lists_; ++list) groups[list] = layout.groups[list].at;
  descriptor_ = describe_tables(site_.at, groups, shape, static_cast<u32>(device), block_size);
  // Captured in a graph, the padding would overwrite the tables whenever the graph is launched.
  if (!is_own_) refuse_capture(stream_, "the stream of a core");
  try {
    pad(layout.groups);
    if (shape.num_groups != 0) {
      // The source is pinned memory. For a copy of other memory CUDA may wait for all earlier work
      // of the stream.
      u8* const here = mapped_.base() + mapped_.bytes() - sizeof layout.groups;
      std::memcpy(here, layout.groups, sizeof layout.groups);
      require(cudaMemcpyAsync(layout.groups_there, here, shape.num_groups * sizeof(GroupSite), cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync");
    }
    require(cudaEventRecord(filled_.get(), stream_), "cudaEventRecord");
  } catch (...) {
    if (!is_over(stream_)) abandon();  // some of the work may be queued
    throw;
  }
}

void CudaTables::abandon() {
  mapped_.abandon();
  memory_.abandon();
}

/// Fills the tables as for an empty plan. Row contents and messages need no initial value, because
/// they are written before they are read.
void CudaTables::pad(const GroupSite* groups) {
  const auto* const zeroed = reinterpret_cast<u8*>(site_.at.query_start);
  const auto minus_ones = static_cast<std::size_t>(zeroed - memory_.base());
  const auto zeros = static_cast<std::size_t>(reinterpret_cast<u8*>(groups[0].contents) - zeroed);
  require(cudaMemsetAsync(memory_.base(), 0xff, minus_ones, stream_), "cudaMemsetAsync");
  require(cudaMemsetAsync(site_.at.query_start, 0, zeros, stream_), "cudaMemsetAsync");
}

void CudaTables::gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) {
  letter_.head = head;
  std::memcpy(letter_.words, words, u64{count} * 4);
  // The small kernel's letter has the layout of the beginning of letter_.
  void* arguments[] = {&site_, &letter_};
  const GatherKernels& kernels = gather_kernels(site_.num_groups != 0);
  launch_early(carrier == Carrier::kSmall ? kernels.small : kernels.large, gather_blocks(head, site_.max_entries, num_lists_), arguments);
  behind_log_ = false;
  last_number_ = head.number;
}

void CudaTables::apply_and_gather(const Site& site, Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words,
                                  u32 count) {
  joint_.site = site;
  joint_.number = job.number;
  joint_.slot = job.slot;
  joint_.log_words = log_words;
  joint_.message_at = joint_message_at(log_words);
  joint_.gather = site_;
  joint_.head = head;
  std::memcpy(joint_.words, log, u64{log_words} * 4);
  std::memcpy(joint_.words + joint_.message_at, words, u64{count} * 4);
  // The small kernel's letter has the layout of the beginning of joint_.
  void* arguments[] = {&joint_};
  const GatherKernels& kernels = gather_kernels(site_.num_groups != 0);
  launch(joint_.message_at + count <= kSmallJointWords ? kernels.joint_small : kernels.joint_large,
         gather_blocks(head, site_.max_entries, num_lists_), arguments, "launch of a log and a gather");
  behind_log_ = false;
  last_number_ = head.number;
}

void CudaTables::gather_slot(const GatherHead& head, u32 index, u32 count) {
  const u32* mapped = mapped_.on_device(slot(index));
  u64 words = count;
  void* of_fetch[] = {&staging_, &mapped, &words};
  const GatherKernels& kernels = gather_kernels(site_.num_groups != 0);
  launch(kernels.fetch, (count + kFetchWords - 1) / kFetchWords, of_fetch, "launch of gather");
  last_number_ = head.number;  // if the second launch fails, the first is at work nevertheless
  GatherHead of_gather = head;
  void* arguments[] = {&site_, &of_gather, &staging_};
  launch(kernels.staged, gather_blocks(head, site_.max_entries, num_lists_), arguments, "launch of gather");
  behind_log_ = false;
}

void CudaTables::drain() const {
  if (launches_) launches_->drain();
}

void CudaTables::launch(const void* kernel, u32 blocks, void** arguments, const char* what) {
  drain();
  const OnDevice on(device_);
  if (!is_own_) refuse_capture(stream_, "the stream of a core");
  require(cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0, stream_), what);
}

/// Launches a gather that may begin while the previous kernel, which applies the step's log, is
/// still running. The gather itself waits for that kernel, so its launch costs no time. GPUs before
/// compute capability 9.0 do not support this. If other work was queued between the two kernels,
/// for example an order with another stream, the gather begins after it as usual.
///
/// The gather would wait only for the previous kernel. A log waits for all earlier work. A kernel
/// of the executor may not: it may also have been launched early, and not wait for kernels that
/// still read the tables. After such a kernel, the gather is therefore launched as usual.
void CudaTables::launch_early(const void* kernel, u32 blocks, void** arguments) {
  if (!can_begin_early_ || !(is_own_ || behind_log_)) return launch(kernel, blocks, arguments, "launch of gather");
  drain();
  const OnDevice on(device_);
  if (!is_own_) refuse_capture(stream_, "the stream of a core");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kThreads);
  config.stream = stream_;
  config.attrs = &attribute;
  config.numAttrs = 1;
  require(cudaLaunchKernelExC(&config, kernel, arguments), "launch of gather");
}

void CudaTables::read(Table which, void* out) {
  drain();
  const OnDevice on(device_);
  const blockstep_array& array = array_of(descriptor_, which);
  const void* from = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(array.data));
  const auto bytes = static_cast<std::size_t>(bytes_of(array));
  // After all earlier work is done, the copy itself is complete when the call returns.
  if (!wait_for(stream_, "work on the GPU", kReadPatience)) give_up("work on the GPU", 0, kReadPatience);
  require(cudaMemcpyAsync(out, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  if (!wait_for(stream_, "work on the GPU", kReadPatience)) give_up("work on the GPU", 0, kReadPatience);
}

bool CudaTables::at_work() const {
  return static_cast<u32>(completion_->word.load(std::memory_order_acquire) >> 32) != last_number_ ||
         query(filled_.get()) == cudaErrorNotReady;
}

}  // namespace blockstep::cuda
