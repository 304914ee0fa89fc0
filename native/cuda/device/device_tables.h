// The tables of a step in the memory of a GPU: at addresses that stay, filled by a gather in the stream of the state.
#pragma once

#include "../base/call.h"
#include "../kernels/gather.h"

namespace blockstep::cuda {

class CudaTables final : public DeviceTables {
 public:
  /// For a state whose arrays lie on this GPU, and whose logs are applied in this stream. The GPU is the current one of
  /// this thread. The tables are zeroed and padded before the first gather. @throws Error kNoMemory, kCuda
  CudaTables(const State& state, const TablesShape& shape, u32 block_size, u32 num_slots, int device,
             cudaStream_t stream);

  const blockstep_tables& descriptor() const override { return descriptor_; }
  u32* slot(u32 index) override { return slots_ + index * slot_words_; }
  const Completion& completion() const override { return *completion_; }
  void gather_value(const GatherHead& head, Carrier carrier, const u32* words, u32 count) override;
  void gather_slot(const GatherHead& head, u32 slot, u32 count) override;
  void read(Table which, void* out) override;
  u64 device_bytes() const override { return memory_.bytes(); }
  u64 pinned_bytes() const override { return mapped_.bytes(); }

  /// Is a gather under way? Its completion says so without a call of CUDA.
  bool at_work() const;

 private:
  void pad();
  void launch(const void* kernel, u32 blocks, void** arguments, const char* what);

  int device_;
  cudaStream_t stream_;
  u64 slot_words_;       // whole lines, so that a message can be read 16 bytes at a time
  MappedMemory mapped_;  // the completion, the slots
  DeviceMemory memory_;  // the tables, what their rows hold, a count, a message from a slot
  Completion* completion_;
  u32* slots_;
  u32* staging_;  // on the GPU
  GatherSite site_{};
  blockstep_tables descriptor_{};
  GatherLetter<kLargeGatherWords> letter_;
  u32 last_number_ = 0;
};

}  // namespace blockstep::cuda
