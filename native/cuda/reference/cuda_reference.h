// CudaReference: the reference executor on a GPU. submit() queues a whole step, and no call waits
// for it:
//
//   kernel         wipes blocks, if the plan has blocks to zero
//   copies         the GPU's tables, for the host
//   host function  the model computes the work of the step, and places the entries
//                  (ReferenceModel::put)
//   kernel         saves the states that the step needs, in KV cache groups of states
//   kernel         writes each entry to the slot that the tables on the GPU name
//   kernels        read every sequence back through the tables on the GPU, a window at a time;
//                  host functions copy it
//   host function  the model checks the read entries, and samples (ReferenceModel::judge)
//
// In a step with drafts and states, the last state is known only after the drafts are verified.
// Such a step continues:
//
//   kernel         writes the states
//   host function  the model ends the step (ReferenceModel::finish)
//
// The step therefore uses the tables until its end, like a model. A gather that is not ordered
// after the step leads to findings. The host functions run on a thread of the driver and make no
// CUDA call.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

#include "../../reference/device_reference.h"
#include "../memory/memory.h"
#include "staged_memory.h"

namespace blockstep::cuda {

class CudaReference final : public DeviceReference {
 public:
  /// `device` is the current GPU of this thread, and has passed require_usable(). @throws Error
  /// kNoMemory, kCuda; std::bad_alloc
  CudaReference(const ReferenceConfig& config, u32 device);
  /// Waits for unfinished work, for at most kPatience. Returns false if the work may still be
  /// running. This object must then never be destroyed.
  bool finish();

  void submit(const void* io, const TablesOnDevice& tables, Span<const std::int32_t> known,
              Span<const std::int32_t> zeroed = {nullptr, 0}) override;
  bool drain(void* io) override;
  void adopt(u64 handle, Span<const std::int32_t> blocks) override;

  const ReferenceConfig& config() const override { return config_; }
  const std::shared_ptr<BlockArena>& blocks() const override { return blocks_; }
  u64 stream() const override { return reinterpret_cast<std::uintptr_t>(stream_.get()); }
  u64 arena_bytes() const override { return model_.arena_bytes(); }
  u64 pinned_bytes() const override;
  u32 num_sequences() const override;

 private:
  using Clock = std::chrono::steady_clock;
  /// The blocks that one launch reads into the window.
  struct Window {
    u32 first_stretch;
    u32 num_stretches;
    u32 num_blocks;
  };
  /// The number of orders of a step, which the kernels read. It is known once the model has placed
  /// them.
  struct Counts {
    u32 states;
    OrderRange written;   // by put()
    OrderRange verified;  // by judge()
  };
  /// A step in flight: its input, its plan and its answer.
  struct Step {
    Step(CudaReference& reference, const ReferenceConfig& config);
    StepIo layout() { return lay_out_step(reference.config_, io.data()); }

    CudaReference& reference;
    std::vector<double> io;
    std::vector<std::int32_t> known;
    std::vector<u64> starts;      // [lists * entries + 1] start of each row among all read blocks
    std::vector<Window> windows;
    bool has_verified = false;    // states are written after its drafts are verified
    u32 next_window = 0;
    // In pinned memory.
    MappedMemory mapped;
    Tables copies;
    Counts* counts;
    EntryOrder* orders;
    StateOrder* states;
    ReadStretch* stretches;
    // The error of the step (null: none), and whether the step is over. `done` is written last,
    // with release.
    const char* code = nullptr;
    std::string message;
    std::atomic<bool> done{true};
  };

  void require_whole() const;
  void plan_windows(Step& step) const;
  EntrySite site_of(const TablesOnDevice& tables) const;
  void queue(Step& step, const TablesOnDevice& tables);
  void queue_copies(const Step& step, const TablesOnDevice& tables, u32 num_entries, u32 num_tokens);
  void queue_adoptions();
  void launch(const void* kernel, u32 blocks, void** arguments, const char* what);
  void call(cudaHostFn_t function, Step& step);
  template <class Queue>
  void give(const Queue& queue);

  // Host functions.
  static void put(void* step);
  static void take_window(void* step);
  static void judge(void* step);
  static void complete(void* step);
  template <class Part>
  static void attempt(Step& step, const Part& part);

  ReferenceConfig config_;
  int device_;
  std::shared_ptr<BlockArena> blocks_;
  u32 num_states_;        // number of KV cache groups of states
  StagedMemory* memory_;  // the model owns it
  ReferenceModel model_;
  mutable std::mutex mutex_;  // guards the model and its memory; never held around a CUDA call
  MappedMemory window_;       // read blocks, until the host has copied them; shared by all steps
  Stream stream_;
  std::vector<std::unique_ptr<Step>> steps_;  // [pipeline_depth]
  u64 submitted_ = 0;
  u64 drained_ = 0;
  Clock::time_point next_check_{};  // next time that drain() queries the stream
  std::string broken_;  // why nothing more can be queued; empty: queueing works
};

}  // namespace blockstep::cuda
