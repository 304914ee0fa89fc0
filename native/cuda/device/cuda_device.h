// CudaDevice: a State on a GPU, with the interface Device. One launch applies one log, or decides
// one batch, and writes its completion last.
#pragma once

#include <memory>

#include "../base/backend.h"
#include "../memory/memory.h"
#include "device_tables.h"
#include "launch_thread.h"
#include "../kernels/kernels.h"

namespace blockstep::cuda {

class CudaDevice final : public Device {
 public:
  /// The GPU is current for this thread and has passed require_usable(). Waits until the state is
  /// initialised.
  /// @throws Error kNoMemory, kCuda
  CudaDevice(const Config& pool, const Options& options);
  /// Waits for unfinished work. If the work does not end in time, the memory that it uses is never
  /// freed.
  ~CudaDevice() override;

  u32* slot(u32 index) override { return slots_ + u64{index} * slot_words_; }
  const Completion& completion(u32 slot) const override { return completions_[slot]; }
  const Completion& digest_completion() const override { return completions_[max_logs_]; }
  void apply_value(Job job, Carrier carrier, const u32* log, u32 words) override;
  void apply_slot(Job job, u32 words) override;
  void start_digest(u32 number) override;
  u32* batch() override { return batch_; }
  const u32* decision() const override { return decision_; }
  const Completion& decision_completion() const override { return completions_[max_logs_ + 1]; }
  void decide_value(u32 number, Carrier carrier, const u32* batch, u32 words) override;
  void decide_slot(u32 number, u32 words) override;
  bool is_capturing(u64 stream) override;
  void follow(u64 stream) override;
  void lead(u64 stream) override;
  DeviceTables& make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) override;
  /// Only in the executor's stream, where a log is directly followed by its gather.
  bool joins() const override { return tables_ && !is_own(); }
  void apply_and_gather(Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) override;
  void check() override;
  u64 device_bytes() const override { return memory_.bytes() + (tables_ ? tables_->device_bytes() : 0); }
  u64 pinned_bytes() const override { return mapped_.bytes() + (tables_ ? tables_->pinned_bytes() : 0); }

  /// Like apply_value(), by a kernel of one thread block of `threads` threads, whose parameter is a
  /// Letter with room for the log. For measurements of other kernels. @throws Error
  void apply_by(const void* kernel, u32 threads, Job job, const u32* log, u32 words);
  /// For tests: waits for all work, and copies the first `count` block ids that the last log took.
  void read_ids(u32* ids, u32 count);

 private:
  void initialise(const Config& pool);
  void warm_up(cudaStream_t stream);
  void abandon();
  void launch(const void* kernel, u32 blocks, void** arguments, const char* what, u32 threads = kThreads);
  void note_log(Job job);
  void write_letter(Letter<kLargeWords>& letter, Job job, const u32* words, u32 count) const;
  void drain() const;
  bool at_work() const;
  bool finish();
  bool is_own() const { return stream_ == own_stream_.get(); }

  int device_;
  u32 max_logs_;
  u32 slot_words_;
  MappedMemory mapped_;  // completions; slots; if it decides: batch, decision
  DeviceMemory memory_;  // Home, state, ids, staging; if it decides: batch, log
  Stream own_stream_;
  cudaStream_t stream_;  // stream of launches: own_stream_, or the executor's stream
  Event theirs_;  // follow(): recorded in the other stream
  Event ours_;    // lead(): recorded in stream_
  Completion* completions_;
  u32* slots_;
  u32* batch_;     // batch_ and decision_ are null if the device does not decide
  u32* decision_;
  Home* home_;  // on the GPU
  u32* ids_;    // on the GPU
  State at_;    // addresses of the arrays on the GPU; its scalars keep their initial values
  std::unique_ptr<CudaTables> tables_;
  Letter<kLargeWords> letter_{};
  std::unique_ptr<LaunchThread> launches_;  // launches logs; null: the caller launches them
  Job last_job_{0, 0};
  u32 last_digest_ = 0;
  u32 last_decision_ = 0;
};

}  // namespace blockstep::cuda
