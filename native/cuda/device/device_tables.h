// CudaTables: the tables of a step in GPU memory. Their addresses never change. A gather in the
// state's stream fills them.
#pragma once

#include "../memory/memory.h"
#include "launch_thread.h"
#include "../kernels/gather.h"

namespace blockstep::cuda {

class CudaTables final : public DeviceTables {
 public:
  /// Tables for a state whose arrays lie on GPU `device`, and whose logs are applied in `stream`,
  /// which is the core's or the executor's. The GPU is current for this thread. Before the first
  /// gather the tables hold padding, as for an empty plan.
  /// @throws Error kNoMemory, kCuda; kBadArg if the executor's stream is being captured
  CudaTables(const State& state, const TablesShape& shape, u32 block_size, u32 num_slots, int device,
             cudaStream_t stream, bool is_own, LaunchThread* launches);

  const blockstep_tables& descriptor() const override { return descriptor_; }
  u32* slot(u32 index) override { return slots_ + index * slot_words_; }
  const Completion& completion() const override { return *completion_; }
  void gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) override;
  void gather_slot(const GatherHead& head, u32 slot, u32 count) override;
  void read(Table which, void* out) override;
  /// See Device::apply_and_gather(). `site` belongs to the state of the log.
  void apply_and_gather(const Site& site, Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count);
  u64 device_bytes() const override { return memory_.bytes(); }
  u64 pinned_bytes() const override { return mapped_.bytes(); }

  /// The core has queued a log in the stream.
  void log_is_queued() { behind_log_ = true; }
  /// Work may use the memory forever, so it is never freed.
  void abandon();
  /// Whether a gather, or the filling with padding, is unfinished. The GPU is current for this
  /// thread.
  bool at_work() const;

 private:
  void drain() const;
  void pad(const GroupSite* groups);
  void launch_early(const void* kernel, u32 blocks, void** arguments);
  void launch(const void* kernel, u32 blocks, void** arguments, const char* what);

  int device_;
  cudaStream_t stream_;
  LaunchThread* const launches_;  // for the logs; null: they are launched
  bool is_own_;           // the stream is the core's, not the executor's
  bool can_begin_early_;  // the GPU can begin a gather early
  bool behind_log_ = false;  // the last queued work is a log, as far as known
  u64 slot_words_;       // whole lines, so that the GPU can read 16 bytes at a time
  MappedMemory mapped_;  // the completion, the slots
  DeviceMemory memory_;  // tables, counts, row contents, a message from a slot
  Event filled_;         // recorded behind the padding; the executor may destroy the stream
  Completion* completion_;
  u32* slots_;
  u32* staging_;  // on the GPU
  u32 num_lists_;
  GatherSite site_{};
  blockstep_tables descriptor_{};
  GatherLetter<kLargeGatherWords> letter_;
  JointLetter<kLargeJointWords> joint_{};
  u32 last_number_ = 0;  // of the last gather of which a kernel was launched
};

}  // namespace blockstep::cuda
