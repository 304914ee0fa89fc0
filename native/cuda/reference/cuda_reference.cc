#include "cuda_reference.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "../base/bounded.h"
#include "../device/probe.h"
#include "../memory/lines.h"

namespace blockstep::cuda {
namespace {

/// Number of blocks in a window: 2 MiB of entries, or one block.
u32 blocks_of_window(const ReferenceConfig& config) {
  constexpr u32 kEntries = 1u << 16;
  return std::max(kEntries / config.block_size, 1u);
}

/// Maximum number of stretches of a step. Every window but the last is full, and each window may
/// cut one row in two.
u64 most_stretches(const ReferenceConfig& config) {
  u64 blocks = 0;
  for (u32 g = 0; g < config.tables.num_lists(); ++g) blocks += u64{config.tables.max_entries} * config.tables.blocks_per_row(g);
  return u64{config.tables.num_lists()} * config.tables.max_entries + blocks / blocks_of_window(config) + 1;
}

u32 num_groups_of_states(const ReferenceConfig& config) {
  u32 count = 0;
  for (u32 g = 0; g < config.tables.num_lists(); ++g) count += config.has_states(g);
  return count;
}

u64 orders_at(const ReferenceConfig& config) { return whole_lines(tables_bytes(config.tables)) + kLine; }
/// In each group a step writes an entry, or a state, of a token once.
u64 states_at(const ReferenceConfig& config) {
  return orders_at(config) + u64{config.tables.num_lists()} * config.tables.max_tokens * sizeof(EntryOrder);
}
u64 stretches_at(const ReferenceConfig& config) {
  return states_at(config) + u64{num_groups_of_states(config)} * config.tables.max_entries * sizeof(StateOrder);
}
u64 pinned_bytes_of_step(const ReferenceConfig& config) {
  return stretches_at(config) + most_stretches(config) * sizeof(ReadStretch);
}

u64 bytes_of_block(const ReferenceConfig& config) { return u64{config.block_size} * sizeof(KvEntry); }

std::shared_ptr<BlockArena> make_blocks(const ReferenceConfig& config, u32 device) {
  const u64 bytes = bytes_of_block(config);
  return std::make_shared<BlockArena>(config.num_blocks, bytes,
                                      allocate_blocks(Place::kDevice, device, config.num_blocks * bytes));
}

void load_kernels_of_reference() {
  const ReferenceKernels& all = reference_kernels();
  load({all.save, all.write, all.read, all.adopt});
}

}  // namespace

CudaReference::Step::Step(CudaReference& owner, const ReferenceConfig& config)
    : reference(owner),
      io(step_io_bytes(config) / sizeof(double) + 1),
      mapped(pinned_bytes_of_step(config)),
      copies(lay_out_tables(config.tables, mapped.base())),
      counts(reinterpret_cast<Counts*>(mapped.base() + whole_lines(tables_bytes(config.tables)))),
      orders(reinterpret_cast<EntryOrder*>(mapped.base() + orders_at(config))),
      states(reinterpret_cast<StateOrder*>(mapped.base() + states_at(config))),
      stretches(reinterpret_cast<ReadStretch*>(mapped.base() + stretches_at(config))) {}

CudaReference::CudaReference(const ReferenceConfig& config, u32 device)
    : config_(config),
      device_(static_cast<int>(device)),
      blocks_(make_blocks(config, device)),
      num_states_(num_groups_of_states(config)),
      memory_(new StagedMemory(blocks_, config.block_size)),
      model_(config, std::unique_ptr<EntryMemory>(memory_)),
      window_(blocks_of_window(config) * bytes_of_block(config)) {
  if (!returns_in_time(device_, load_kernels_of_reference)) give_up("loading the kernels", 0);
  for (u32 i = 0; i < config.pipeline_depth; ++i) steps_.push_back(std::make_unique<Step>(*this, config));
}

bool CudaReference::finish() {
  try {
    const OnDevice on(device_);
    // On a lost GPU it is unknown whether a host function is running. This is possible if a step is
    // unfinished.
    const bool all_done = is_over(stream_.get()) &&
        (query(stream_.get()) == cudaSuccess ||
         std::all_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->done.load(); }));
    if (all_done) return true;
  } catch (const Error&) {
    // The state of the device is unknown.
  }
  count_abandoned(pinned_bytes() + blocks_->bytes());
  return false;
}

void CudaReference::submit(const void* io, const TablesOnDevice& tables, Span<const std::int32_t> known,
                           Span<const std::int32_t> zeroed) {
  require_whole();
  if (submitted_ - drained_ == config_.pipeline_depth) {
    throw Error{kLimit, "at most " + std::to_string(config_.pipeline_depth) + " steps may wait to be drained, got one more"};
  }
  Step& step = *steps_[submitted_ % config_.pipeline_depth];
  std::memcpy(step.io.data(), io, static_cast<std::size_t>(step_io_bytes(config_)));
  step.known.assign(known.data, known.data + known.size);
  model_.check(step.layout(), {step.known.data(), known.size});
  plan_windows(step);
  if (zeroed.size > 0) {
    const std::lock_guard lock(mutex_);
    memory_->begin_adoption(zeroed.size);
    model_.zero(zeroed);
  }
  step.code = nullptr;
  step.done.store(false, std::memory_order_relaxed);
  give([&] {
    if (zeroed.size > 0) queue_adoptions();
    queue(step, tables);
  });
  submitted_ += 1;
}

bool CudaReference::drain(void* io) {
  if (drained_ == submitted_) return false;
  const Step& step = *steps_[drained_ % config_.pipeline_depth];
  if (!step.done.load(std::memory_order_acquire)) {
    require_whole();
    if (Clock::now() >= next_check_) {
      next_check_ = Clock::now() + kCheckInterval;
      give([&] {
        const cudaError_t error = query(stream_.get());
        if (error != cudaErrorNotReady) require(error, "work on the GPU");
      });
    }
    return false;
  }
  drained_ += 1;
  if (step.code) throw Error{step.code, step.message};
  std::memcpy(io, step.io.data(), static_cast<std::size_t>(step_io_bytes(config_)));
  return true;
}

void CudaReference::adopt(u64 handle, Span<const std::int32_t> blocks) {
  require_whole();
  {
    const std::lock_guard lock(mutex_);
    memory_->begin_adoption(blocks.size);
    model_.adopt(handle, blocks);
  }
  give([&] { queue_adoptions(); });
}

/// Queues the adoptions and wipes of the model. Only the owner's thread uses the list, so no lock
/// is needed.
void CudaReference::queue_adoptions() {
  const std::vector<Adoption>& adopted = memory_->adopted();
  auto* entries = reinterpret_cast<KvEntry*>(blocks_->on_device());
  for (std::size_t from = 0; from < adopted.size(); from += AdoptionList::kMost) {
    const u32 count = static_cast<u32>(std::min<std::size_t>(adopted.size() - from, AdoptionList::kMost));
    AdoptionList all;
    std::copy_n(adopted.begin() + static_cast<std::ptrdiff_t>(from), count, all.list);
    void* arguments[] = {&entries, &config_.block_size, &all};
    launch(reference_kernels().adopt, count, arguments, "launch of adopt");
  }
}

u64 CudaReference::pinned_bytes() const {
  return window_.bytes() + config_.pipeline_depth * pinned_bytes_of_step(config_);
}

u32 CudaReference::num_sequences() const {
  const std::lock_guard lock(mutex_);
  return model_.num_sequences();
}

void CudaReference::require_whole() const {
  if (!broken_.empty()) throw Error{kCuda, broken_};
}

/// Cuts the rows of all entries that the step will read into windows. The needs of a token, for
/// example a window or a chunk, are known only when the step is computed. Its whole row is
/// therefore read. Groups of states have no rows to read.
void CudaReference::plan_windows(Step& step) const {
  const StepIo io = step.layout();
  const u32 room = blocks_of_window(config_);
  const auto num_entries = static_cast<u32>(io.control[kNumEntries]);
  step.starts.assign(1, 0);
  step.windows.clear();
  step.next_window = 0;
  u32 num_stretches = 0;
  for (u32 row = 0; row < config_.tables.num_lists() * num_entries; ++row) {
    const u32 g = row / num_entries;
    const u32 e = row % num_entries;
    const u32 num_blocks = config_.has_states(g) ? 0 : static_cast<u32>(io.num_blocks[u64{g} * config_.tables.max_entries + e]);
    step.starts.push_back(step.starts.back() + num_blocks);
    for (u32 from = 0; from < num_blocks;) {
      if (step.windows.empty() || step.windows.back().num_blocks == room) step.windows.push_back({num_stretches, 0, 0});
      Window& window = step.windows.back();
      const u32 count = std::min(num_blocks - from, room - window.num_blocks);
      step.stretches[num_stretches++] = {g, e, from, count, window.num_blocks};
      window.num_stretches += 1;
      window.num_blocks += count;
      from += count;
    }
  }
}

EntrySite CudaReference::site_of(const TablesOnDevice& tables) const {
  EntrySite site{tables.at.seq_lens, reinterpret_cast<KvEntry*>(blocks_->on_device()), config_.num_blocks, config_.block_size, {}};
  for (u32 g = 0; g < config_.tables.num_lists(); ++g) {
    site.groups[g] = {tables.groups[g], config_.tables.blocks_per_row(g), config_.tokens_per_block(g), config_.has_states(g),
                      config_.groups[g].zeroed};
  }
  return site;
}

void CudaReference::queue(Step& step, const TablesOnDevice& tables) {
  const StepIo io = step.layout();
  const auto num_entries = static_cast<u32>(io.control[kNumEntries]);
  u32 num_tokens = 0;
  bool has_drafts = false;
  for (u32 e = 0; e < num_entries; ++e) {
    num_tokens += static_cast<u32>(io.scheduled[e]);
    has_drafts |= io.num_drafts[e] > 0;
  }
  step.has_verified = has_drafts && num_states_ != 0;
  if (num_entries != 0) queue_copies(step, tables, num_entries, num_tokens);
  call(put, step);
  EntrySite site = site_of(tables);
  const Counts* counts = step.mapped.on_device(step.counts);
  EntryOrder* orders = step.mapped.on_device(step.orders);
  const auto blocks_for = [](u64 threads) { return static_cast<u32>((threads + kThreads - 1) / kThreads); };
  if (num_entries != 0 && num_states_ != 0) {
    StateOrder* states = step.mapped.on_device(step.states);
    const u32* num_states = &counts->states;
    void* of_save[] = {&site, &states, &num_states};
    launch(reference_kernels().save, blocks_for(u64{num_states_} * num_entries), of_save, "launch of save");
  }
  const auto write = [&](const OrderRange* range, u32 num_groups) {
    void* of_write[] = {&site, &orders, &range};
    launch(reference_kernels().write, blocks_for(u64{num_groups} * num_tokens), of_write, "launch of write");
  };
  if (num_tokens != 0) write(&counts->written, config_.tables.num_lists());
  auto* entries = window_.on_device(reinterpret_cast<KvEntry*>(window_.base()));
  for (const Window& window : step.windows) {
    ReadStretch* stretches = step.mapped.on_device(step.stretches) + window.first_stretch;
    void* of_read[] = {&site, &stretches, &entries};
    launch(reference_kernels().read, window.num_stretches, of_read, "launch of read");
    call(take_window, step);
  }
  call(judge, step);
  if (!step.has_verified) return;
  write(&counts->verified, num_states_);
  call(complete, step);
}

/// Queues copies of the tables for the host. The model compares them with the plan, and learns from
/// them the blocks of each request.
void CudaReference::queue_copies(const Step& step, const TablesOnDevice& tables, u32 num_entries, u32 num_tokens) {
  const auto copy = [&](void* to, const void* from, u64 bytes) {
    require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_.get()),
            "cudaMemcpyAsync");
  };
  const Tables& to = step.copies;
  copy(to.input_ids, tables.at.input_ids, u64{num_tokens} * 4);
  copy(to.query_start, tables.at.query_start, (u64{num_entries} + 1) * 4);
  copy(to.seq_lens, tables.at.seq_lens, u64{num_entries} * 4);
  copy(to.num_computed, tables.at.num_computed, u64{num_entries} * 4);
  for (u32 g = 0; g < config_.tables.num_lists(); ++g) {
    const GroupTables of_group = lay_out_group(config_.tables, to, g);
    copy(of_group.slot_mapping, tables.groups[g].slot_mapping, u64{num_tokens} * 8);
    copy(of_group.block_table, tables.groups[g].block_table, u64{num_entries} * config_.tables.blocks_per_row(g) * 4);
  }
}

void CudaReference::launch(const void* kernel, u32 blocks, void** arguments, const char* what) {
  require(cudaLaunchKernel(kernel, dim3(blocks), dim3(kThreads), arguments, 0, stream_.get()), what);
}

void CudaReference::call(cudaHostFn_t function, Step& step) {
  require(cudaLaunchHostFunc(stream_.get(), function, &step), "cudaLaunchHostFunc");
}

/// Makes CUDA calls that belong together. If a call fails, a step may be partly queued, so all
/// later calls fail.
template <class Queue>
void CudaReference::give(const Queue& queue) {
  try {
    const OnDevice on(device_);
    queue();
  } catch (const Error& error) {
    broken_ = error.message;
    throw;
  }
}

void CudaReference::put(void* argument) {
  Step& step = *static_cast<Step*>(argument);
  attempt(step, [&](CudaReference& self) {
    const auto num_entries = static_cast<u32>(step.layout().control[kNumEntries]);
    self.memory_->prepare(step.orders, step.states, step.starts, num_entries);
    self.model_.put(step.layout(), step.copies, {step.known.data(), static_cast<u32>(step.known.size())});
  });
  const StagedMemory& memory = *step.reference.memory_;
  if (step.code) *step.counts = {};
  else *step.counts = {memory.num_states(), {0, memory.num_orders()}, {}};
}

void CudaReference::take_window(void* argument) {
  Step& step = *static_cast<Step*>(argument);
  attempt(step, [&](CudaReference& self) {
    const u32 num_blocks = step.windows[step.next_window++].num_blocks;
    self.memory_->take(reinterpret_cast<const KvEntry*>(self.window_.base()), num_blocks);
  });
}

void CudaReference::judge(void* argument) {
  Step& step = *static_cast<Step*>(argument);
  attempt(step, [&](CudaReference& self) {
    self.model_.judge(step.layout(), step.copies);
    step.counts->verified = {step.counts->written.end, self.memory_->num_orders()};
  });
  if (!step.has_verified) complete(argument);
}

void CudaReference::complete(void* argument) {
  Step& step = *static_cast<Step*>(argument);
  attempt(step, [&](CudaReference& self) { self.model_.finish(step.layout()); });
  step.done.store(true, std::memory_order_release);
}

/// Runs a part of a step in a host function, which must not throw. An error fails the step.
template <class Part>
void CudaReference::attempt(Step& step, const Part& part) {
  if (step.code) return;
  try {
    const std::lock_guard lock(step.reference.mutex_);
    part(step.reference);
  } catch (const Error& error) {
    step.code = error.code;
    step.message = error.message;
  } catch (const std::exception&) {
    step.code = kNoMemory;
    step.message = "out of memory for what a step reads";
  }
}

std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device) {
  require_usable(device);
  const OnDevice on(static_cast<int>(device));
  // If work on the GPU does not end, the memory that it uses is never freed.
  return {new CudaReference(config, device), [](CudaReference* reference) {
            if (reference->finish()) delete reference;
          }};
}

}  // namespace blockstep::cuda
