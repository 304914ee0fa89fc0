// The kernels that decide, on threads: decide.cu is compiled as C++ over gpu_shim, with one thread
// for each thread of a block. With every carrier of a batch, a thread block decides the same as a
// HostCore called operation by operation. The thread sanitizer shows that a reader of the
// completion sees the decision.
//
//   decide_kernel_test [steps]
#if !defined(BLOCKSTEP_BLOCK_THREADS)
#define BLOCKSTEP_BLOCK_THREADS 64
#endif
#include "../../cuda/kernels/decide.cu"

#include "../../host/device/decision_room.h"
#include "../workload/decided_comparison.h"
#include "../workload/decide_workload.h"
#include "../support/host_core.h"

using namespace blockstep;
using namespace blockstep::test;
namespace gpu_code = blockstep::cuda;

/// Words aligned to 16 bytes, like mapped memory.
struct Words {
  explicit Words(u32 count) : quads(count / 4 + 1) {}
  u32* data() { return &quads.data()->x; }
  std::vector<uint4> quads;
};

/// The device's state, and the memory for a decision.
struct Gpu {
  explicit Gpu(const Config& config)
      : room(decision_room(config)), machine(config), ids(config.num_blocks, kNone), mapped(room.batch_words),
        staged(room.batch_words), log(room.max_log), decision(room.decision_words) {
    home.state = machine.state;
    home.ids = ids.data();
    home.desk = {staged.data(), log.data(), room.max_log, decision.data(), &completion};
  }

  /// Passes a batch like the host does: by value or through mapped memory.
  void decide(u32 number, const std::vector<u32>& batch, Carrier carrier) {
    const auto words = static_cast<u32>(batch.size());
    if (carrier == Carrier::kSlot) {
      std::copy(batch.begin(), batch.end(), mapped.data());
      gpu_shim::launch(1, gpu_code::kThreads, [&] { gpu_code::decide_slot(&home, number, words, mapped.data()); });
    } else if (carrier == Carrier::kSmall) {
      decide_value<kSmallWords>(number, batch);
    } else {
      decide_value<kLargeWords>(number, batch);
    }
  }

  template <u32 Size>
  void decide_value(u32 number, const std::vector<u32>& batch) {
    const auto letter = std::make_unique<gpu_code::Letter<Size>>();
    letter->site = gpu_code::site_of(home.state, &home);
    letter->number = number;
    letter->words = static_cast<u32>(batch.size());
    std::copy(batch.begin(), batch.end(), letter->log);
    gpu_shim::launch(1, gpu_code::kThreads, [&] { gpu_code::decide_value<Size>(*letter); });
  }

  const DecisionRoom room;
  Machine machine;
  std::vector<u32> ids;
  Words mapped, staged, log, decision;
  Completion completion = {};
  gpu_code::Home home{};
};

/// Random steps by every carrier with enough room, compared word for word with the host's decision.
static void run(const MixShape& shape, u64 seed, u32 steps, DecideCoverage& coverage, u32 (&carried)[3]) {
  Gpu gpu(shape.pool);
  DecideWorkload workload(shape, seed, coverage);
  for (u32 number = 1; number <= steps; ++number) {
    const DecideStep step = workload.next();
    auto carrier = static_cast<Carrier>(number % 3);
    if (carrier < carrier_of(static_cast<u32>(step.batch.size()))) carrier = Carrier::kSlot;
    carried[static_cast<u32>(carrier)] += 1;
    // A polling host: everything must be complete once it sees the completion.
    std::thread host([&] {
      while (gpu.completion.word.load(std::memory_order_acquire) >> 32 != number) std::this_thread::yield();
      EXPECT(gpu.completion.word.load() == completion_word(number, 0), "step %u: a fault", number);
      const u32* words = gpu.decision.data();
      for (std::size_t i = 0; i < step.decision.size(); ++i) {
        EXPECT(words[i] == step.decision[i], "step %u: word %zu of the decision is %u instead of %u", number, i, words[i],
               step.decision[i]);
      }
    });
    gpu.decide(number, step.batch, carrier);
    host.join();
    EXPECT(digest(gpu.home.state) == step.digest, "step %u: another state", number);
  }
  const char* broken = verify(gpu.home.state);
  EXPECT(broken == nullptr, "%s", broken);
}

/// A fault is in the completion and in the decision, and nothing is decided after it.
static void test_fault() {
  Gpu gpu({40, 4, 8, 0});
  BatchWriter writer;
  writer.clear();
  writer.run(2, 1);
  for (u32 number = 1; number <= 2; ++number) {
    gpu.decide(number, writer.words({kUsual, 10, 1, 4, 0, 0, 32}), number == 1 ? Carrier::kSmall : Carrier::kSlot);
    EXPECT(gpu.completion.word.load() == completion_word(number, kRowNotInUse), "%llx", wide(gpu.completion.word.load()));
    const DecisionHeader& header = record_at<DecisionHeader>(gpu.decision.data());
    EXPECT(header.fault == kRowNotInUse && header.words == kWordsOf<DecisionHeader>, "%s", describe(header.fault));
  }
}

int main(int argc, char** argv) {
  const u32 steps = static_cast<u32>(argument(argc, argv, 1, 20));
  test_fault();
  DecideCoverage coverage;
  u32 carried[3] = {};
  u64 seed = 40;
  for (const DecidedSetup& setup : kDecidedSetups) {
    if (setup.shape.pool.num_blocks < 1000) run(setup.shape, seed++, steps, coverage, carried);
  }
  EXPECT(carried[0] && carried[1] && carried[2], "%u small, %u large, %u in slots", carried[0], carried[1], carried[2]);
  std::printf("kernels on %u threads: %llu entries and %llu hits decided as by the host, by every carrier\n",
              gpu_code::kThreads, wide(coverage.run), wide(coverage.hits));
  return 0;
}
