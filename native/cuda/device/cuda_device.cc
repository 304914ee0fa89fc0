#include "cuda_device.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "../../core/blocks/apply.h"
#include "../../host/device/decision_room.h"
#include "../memory/lines.h"
#include "probe.h"

namespace blockstep::cuda {
namespace {

u64 slots_at(u32 max_logs) { return (u64{max_logs} + 2) * sizeof(Completion); }
/// Slots begin at a cache line, so that a log can be read in pieces of 16 bytes.
u32 slot_stride(const Config& pool) { return static_cast<u32>(whole_lines(u64{slot_words(pool)} * 4) / 4); }
u64 batch_at(const Config& pool, u32 max_logs) { return slots_at(max_logs) + u64{max_logs} * slot_stride(pool) * 4; }
u64 decision_at(const Config& pool, u32 max_logs) {
  return batch_at(pool, max_logs) + whole_lines(u64{decision_room(pool).batch_words} * 4);
}
u64 mapped_bytes(const Config& pool, const Options& options) {
  if (!options.decides) return batch_at(pool, options.max_logs);
  return decision_at(pool, options.max_logs) + whole_lines(u64{decision_room(pool).decision_words} * 4);
}

u64 ids_at(const Config& pool) { return whole_lines(sizeof(Home)) + state_bytes(pool); }
u64 staging_at(const Config& pool) { return ids_at(pool) + whole_lines(u64{pool.num_blocks} * 4); }
u64 desk_at(const Config& pool) { return staging_at(pool) + u64{slot_stride(pool)} * 4; }
u64 desk_log_at(const Config& pool) { return desk_at(pool) + whole_lines(u64{decision_room(pool).batch_words} * 4); }
u64 device_bytes(const Config& pool, const Options& options) {
  if (!options.decides) return desk_at(pool);
  return desk_log_at(pool) + whole_lines(u64{decision_room(pool).max_log} * 4);
}

}  // namespace

CudaDevice::CudaDevice(const Config& pool, const Options& options)
    : device_(static_cast<int>(options.device)),
      max_logs_(options.max_logs),
      slot_words_(slot_stride(pool)),
      mapped_(mapped_bytes(pool, options)),
      memory_(cuda::device_bytes(pool, options)),
      stream_(options.stream ? reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(*options.stream))
                             : own_stream_.get()),
      completions_(reinterpret_cast<Completion*>(mapped_.base())),
      slots_(reinterpret_cast<u32*>(mapped_.base() + slots_at(options.max_logs))),
      batch_(options.decides ? reinterpret_cast<u32*>(mapped_.base() + batch_at(pool, options.max_logs)) : nullptr),
      decision_(options.decides ? reinterpret_cast<u32*>(mapped_.base() + decision_at(pool, options.max_logs)) : nullptr),
      home_(reinterpret_cast<Home*>(memory_.base())),
      ids_(reinterpret_cast<u32*>(memory_.base() + ids_at(pool))) {
  initialise(pool);
  if (options.launch_thread) launches_ = std::make_unique<LaunchThread>(device_, stream_, max_logs_);
}

/// Zeroes everything except scratch memory and the row lists, which are written before they are
/// read.
void CudaDevice::initialise(const Config& pool) {
  Home home{};
  bind_state(home.state, pool, memory_.base() + whole_lines(sizeof(Home)));
  init_scalars(home.state);
  at_ = home.state;
  home.ids = ids_;
  home.staging = reinterpret_cast<u32*>(memory_.base() + staging_at(pool));
  home.completions = mapped_.on_device(completions_);
  home.digest = home.completions + max_logs_;
  if (decision_) {
    u32* const staged = reinterpret_cast<u32*>(memory_.base() + desk_at(pool));
    u32* const log = reinterpret_cast<u32*>(memory_.base() + desk_log_at(pool));
    home.desk = {staged, log, decision_room(pool).max_log, mapped_.on_device(decision_), home.digest + 1};
  }
  const cudaStream_t stream = own_stream_.get();
  const u64 memory_bytes = memory_.bytes() + mapped_.bytes();
  const auto zeroed = static_cast<std::size_t>(reinterpret_cast<u8*>(home.state.row_blocks) - memory_.base());
  try {
    require(cudaMemsetAsync(memory_.base(), 0, zeroed, stream), "cudaMemsetAsync");
    // The source is pinned memory. For a copy of other memory CUDA may wait for all earlier work of
    // the stream. No slot is in use yet.
    static_assert(sizeof home <= u64{kSlotWords} * 4);
    std::memcpy(slots_, &home, sizeof home);
    require(cudaMemcpyAsync(home_, slots_, sizeof home, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    void* arguments[] = {&home_};
    require(cudaLaunchKernel(kernels().initialise, dim3(kParts), dim3(kThreads), arguments, 0, stream),
            "launch of initialise");
    warm_up(stream);
  } catch (...) {
    if (!is_over(stream)) abandon();  // some of the work may be queued
    throw;
  }
  if (wait_for(stream, "the initialisation")) return;
  abandon();
  give_up("the initialisation", memory_bytes);
}

/// Applies an empty log, with number 0, by every kernel, because the first launch of a kernel takes
/// longer. It changes nothing, and writes only completions that belong to no log.
void CudaDevice::warm_up(cudaStream_t stream) {
  letter_.site = site_of(at_, home_);
  void* arguments[] = {&letter_};
  const Kernels& all = kernels();
  for (const void* kernel : {all.apply_common_small, all.apply_common_middle, all.apply_small, all.apply_middle, all.apply_large}) {
    require(cudaLaunchKernel(kernel, dim3(1), dim3(kThreads), arguments, 0, stream), "launch of apply");
  }
}

/// Work may use the memory forever.
void CudaDevice::abandon() {
  if (tables_) tables_->abandon();
  mapped_.abandon();
  memory_.abandon();
}

CudaDevice::~CudaDevice() {
  try {
    const OnDevice on(device_);
    drain();
    if (!finish()) abandon();
  } catch (const Error&) {
    abandon();  // the state of the device is unknown
  }
}

/// Waits until no work uses the memory. Returns false after a time limit.
bool CudaDevice::finish() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // The executor's stream is not queried, because the executor may have destroyed it.
  for (u32 errors = 0; at_work();) {
    const cudaError_t status = query(own_stream_.get());
    if (status != cudaSuccess && status != cudaErrorNotReady && ++errors == kErrorsOfLost) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
  // A completion arrives before the last stores of its kernel are done.
  return is_over(own_stream_.get());
}

/// Whether work that was queued is unfinished. Launches are known by their completions, because the
/// executor may have destroyed its stream.
bool CudaDevice::at_work() const {
  // The words arrive in any order. Memory must not be freed while a word to it is still
  // outstanding.
  const auto done = [](const Completion& completion, u32 number) {
    return static_cast<u32>(completion.word.load(std::memory_order_acquire) >> 32) == number;
  };
  const auto all_come = [&](const Completion& completion, u32 number) { return done(completion, number) && has_digest(completion, number); };
  return !all_come(completions_[last_job_.slot], last_job_.number) || !all_come(digest_completion(), last_digest_) ||
         !done(decision_completion(), last_decision_) || (tables_ && tables_->at_work());
}

/// A letter of fewer words has the layout of its beginning, so one letter serves all kernels.
void CudaDevice::write_letter(Letter<kLargeWords>& letter, Job job, const u32* words, u32 count) const {
  letter.site = letter_.site;
  letter.number = job.number;
  letter.slot = job.slot;
  letter.words = count;
  std::memcpy(letter.log, words, u64{count} * 4);
}

/// Waits until all logs are launched, so that later launches come after them. @throws Error of one
/// of the launches
void CudaDevice::drain() const {
  if (launches_) launches_->drain();
}

/// The kernel for a log that is passed as a parameter. Long logs are rare, and their launch takes
/// longer than their code.
static const void* apply_kernel(const u32* log, u32 words) {
  const Kernels& all = kernels();
  if (words > kMiddleWords) return all.apply_large;
  const bool common = is_common(log, words);
  if (words <= kSmallWords) return common ? all.apply_common_small : all.apply_small;
  return common ? all.apply_common_middle : all.apply_middle;
}

void CudaDevice::apply_value(Job job, Carrier, const u32* log, u32 words) {
  apply_by(apply_kernel(log, words), kThreads, job, log, words);
}

void CudaDevice::apply_by(const void* kernel, u32 threads, Job job, const u32* log, u32 words) {
  if (launches_) {
    write_letter(launches_->next(), job, log, words);
    launches_->push(kernel, threads);
  } else {
    write_letter(letter_, job, log, words);
    void* arguments[] = {&letter_};
    launch(kernel, 1, arguments, "launch of apply", threads);
  }
  note_log(job);
}

void CudaDevice::apply_slot(Job job, u32 words) {
  const u32* mapped_log = mapped_.on_device(slot(job.slot));
  void* arguments[] = {&home_, &job.number, &job.slot, &words, &mapped_log};
  launch(kernels().apply_slot, 1, arguments, "launch of apply");
  note_log(job);
}

void CudaDevice::note_log(Job job) {
  last_job_ = job;
  if (tables_) tables_->log_is_queued();
}

void CudaDevice::start_digest(u32 number) {
  void* of_home[] = {&home_};
  launch(kernels().count_parts, kParts, of_home, "launch of a digest");
  last_digest_ = number;  // if the second launch fails, the first is at work nevertheless
  void* arguments[] = {&home_, &number};
  launch(kernels().digest_parts, kParts, arguments, "launch of a digest");
}

void CudaDevice::decide_value(u32 number, Carrier carrier, const u32* batch, u32 words) {
  write_letter(letter_, {number, 0}, batch, words);
  void* arguments[] = {&letter_};
  const DecideKernels& decide = decide_kernels();
  launch(carrier == Carrier::kSmall ? decide.small : decide.large, 1, arguments, "launch of decide");
  last_decision_ = number;
}

void CudaDevice::decide_slot(u32 number, u32 words) {
  const u32* mapped_batch = mapped_.on_device(batch_);
  void* arguments[] = {&home_, &number, &words, &mapped_batch};
  launch(decide_kernels().slot, 1, arguments, "launch of decide");
  last_decision_ = number;
}

void CudaDevice::launch(const void* kernel, u32 blocks, void** arguments, const char* what, u32 threads) {
  drain();
  const OnDevice on(device_);
  // Captured in a graph, a log would be applied again whenever the graph is launched.
  if (!is_own()) refuse_capture(stream_, "the stream of a core");
  require(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, stream_), what);
}

DeviceTables& CudaDevice::make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) {
  const OnDevice on(device_);
  tables_ = std::make_unique<CudaTables>(at_, shape, block_size, num_slots, device_, stream_, is_own(), launches_.get());
  return *tables_;
}

void CudaDevice::apply_and_gather(Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) {
  tables_->apply_and_gather(letter_.site, job, log, log_words, head, words, count);
  last_job_ = job;
}

bool CudaDevice::is_capturing(u64 stream) {
  const OnDevice on(device_);
  return cuda::is_capturing(reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream)));
}

void CudaDevice::follow(u64 stream) {
  const auto other = reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream));
  if (other == stream_) return;
  drain();
  const OnDevice on(device_);
  require(cudaEventRecord(theirs_.get(), other), "cudaEventRecord");
  require(cudaStreamWaitEvent(stream_, theirs_.get(), 0), "cudaStreamWaitEvent");
}

void CudaDevice::lead(u64 stream) {
  const auto other = reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream));
  if (other == stream_) return;
  drain();
  const OnDevice on(device_);
  require(cudaEventRecord(ours_.get(), stream_), "cudaEventRecord");
  require(cudaStreamWaitEvent(other, ours_.get(), 0), "cudaStreamWaitEvent");
}

void CudaDevice::check() {
  if (launches_) launches_->check();
  const OnDevice on(device_);
  const cudaError_t error = query(stream_);
  if (error != cudaErrorNotReady) require(error, "work on the GPU");
}

void CudaDevice::read_ids(u32* ids, u32 count) {
  drain();
  const OnDevice on(device_);
  if (!wait_for(stream_, "work on the GPU")) give_up("work on the GPU", 0);
  require(cudaMemcpy(ids, ids_, u64{count} * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

std::unique_ptr<Device> open(const Config& pool, const Options& options) {
  require_usable(options.device);
  const OnDevice on(static_cast<int>(options.device));
  return std::make_unique<CudaDevice>(pool, options);
}

}  // namespace blockstep::cuda
