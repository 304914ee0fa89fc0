// The tables of a step on a GPU against the host's, read by a captured forward pass. One CUDA
// graph, captured before the first step, is replayed in every step after the gather. Steps are in
// flight while the next steps are gathered.
//
//   tables_test [--steps N] [--seed S] [--device D] [--trust-mapped 1]
//
// Exit codes: 0 all equal, 1 a difference or an error, 2 no usable GPU.
#include <deque>
#include "../../cuda/device/cuda_device.h"
#include "../../cuda/device/probe.h"
#include "../support/tables_life.h"
#include "forward.h"
#include "tables_reader.h"

using namespace blockstep;
using namespace blockstep::test;
using cuda::require;

/// Maximum number of steps in flight.
constexpr u32 kDepth = 3;

/// The forward pass: copies the current content of every table into memory of the step. Once
/// captured, it always reads and writes the same addresses. Its output is then copied to the host.
class Forward {
 public:
  Forward(const blockstep_tables& descriptor, cudaStream_t stream) : stream_(stream), bytes_(total(descriptor)), copy_(bytes_) {
    EXPECT(find_tables(reinterpret_cast<std::uintptr_t>(&descriptor), arrays_), "a struct of another version");
    for (u32 i = 0; i < kDepth; ++i) landings_.push_back(std::make_unique<Landing>(bytes_));
    cudaGraph_t graph;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    u64 at = 0;
    for (const blockstep_array& array : arrays_) {
      EXPECT(array.data % 256 == 0, "an array at %llx", wide(array.data));
      const void* from = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(array.data));
      void* to = copy_.base() + at;
      u64 words = bytes_of(array) / 4;
      void* arguments[] = {&from, &to, &words};
      require(cudaLaunchKernel(copy_words_kernel(), dim3(2), dim3(cuda::kThreads), arguments, 0, stream), "launch");
      at += bytes_of(array);
    }
    require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    require(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    require(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;
  ~Forward() {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaGraphExecDestroy(executable_));
  }

  /// Queues the pass. `step` is its number: kDepth steps later its output buffer is reused.
  void execute(u64 step) {
    Landing& landing = *landings_[step % kDepth];
    require(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
    require(cudaMemcpyAsync(landing.memory.base(), copy_.base(), bytes_, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    require(cudaEventRecord(landing.over.get(), stream_), "cudaEventRecord");
  }

  /// Waits for a pass, and returns its copy of one table.
  const u8* wait(u64 step) {
    require(cudaEventSynchronize(landings_[step % kDepth]->over.get()), "cudaEventSynchronize");
    return landings_[step % kDepth]->memory.base();
  }

  const blockstep_array& array(u32 index) const { return arrays_[index]; }

 private:
  struct Landing {
    explicit Landing(u64 bytes) : memory(bytes) {}
    cuda::MappedMemory memory;
    cuda::Event over;
  };

  static u64 total(const blockstep_tables& descriptor) {
    u64 bytes = 0;
    for (u32 i = 0; i < kNumTables; ++i) bytes += bytes_of(array_of(descriptor, static_cast<Table>(i)));
    return bytes;
  }

  cudaStream_t stream_;
  u64 bytes_;
  cuda::DeviceMemory copy_;
  blockstep_array arrays_[kNumTables];
  std::vector<std::unique_ptr<Landing>> landings_;
  cudaGraphExec_t executable_ = nullptr;
};

struct InFlight {
  u64 step;
  std::vector<std::vector<u8>> tables;  // the host's tables
};

/// `names_stream`: the core has its own stream, and every call passes the executor's stream.
static void run(LifeShape shape, u32 gpu, u64 seed, u64 steps, bool names_stream) {
  shape.num_frames = kDepth + 1;  // like a scheduler with steps in flight
  const cuda::OnDevice on(static_cast<int>(gpu));
  cuda::Stream stream;
  const u64 address = reinterpret_cast<std::uintptr_t>(stream.get());
  TablesLife life(shape, seed, [&](const Config& pool, u32 max_logs) {
    cuda::Options options;
    options.device = gpu;
    options.max_logs = max_logs;
    if (!names_stream) options.stream = address;
    return cuda::open(pool, options);
  });
  const Device& device = life.core().mirror()->device();
  const blockstep_tables& descriptor = life.core().gatherer().tables().descriptor();
  const u64 device_bytes = device.device_bytes();
  Forward forward(descriptor, stream.get());

  std::deque<InFlight> flight;
  const auto take = [&] {
    const u8* found = forward.wait(flight.front().step);
    for (u32 i = 0; i < kNumTables; ++i) {
      const std::vector<u8>& expected = flight.front().tables[i];
      EXPECT(expected.size() == bytes_of(forward.array(i)), "table %u has another size", i);
      EXPECT(std::equal(expected.begin(), expected.end(), found), "%s, seed %llu, step %llu: table %u", shape.name, wide(seed),
             wide(flight.front().step), i);
      found += expected.size();
    }
    flight.pop_front();
  };
  for (u64 step = 0; step < steps; ++step) {
    if (flight.size() == kDepth) take();
    const u32 frame = life.step(names_stream ? std::optional<u64>(address) : std::nullopt);
    forward.execute(step);
    flight.push_back({step, {}});
    for (u32 i = 0; i < kNumTables; ++i) flight.back().tables.push_back(life.array(frame, static_cast<Table>(i)));
    if (step % 50 == 49) {  // like a read by JavaScript for debugging
      std::vector<u8> found(bytes_of(descriptor.block_table));
      life.core().read_device_table(Table::kBlockTable, found.data());
      EXPECT(found == flight.back().tables.back(), "%s, step %llu: another block table was read", shape.name, wide(step));
    }
  }
  while (!flight.empty()) take();
  EXPECT(life.core().gatherer().done() == steps, "%llu gathers done", wide(life.core().gatherer().done()));
  EXPECT(&life.core().gatherer().tables().descriptor() == &descriptor && device.device_bytes() == device_bytes,
         "the tables moved, or something was allocated");
  EXPECT(life.waits() == 0, "%llu gathers had to wait", wide(life.waits()));
}

int main(int argc, char** argv) {
  const u64 steps = option(argc, argv, "--steps", 2000);
  const u64 seed = option(argc, argv, "--seed", 1);
  const u32 gpu = static_cast<u32>(option(argc, argv, "--device", 0));
  // Under a tool that delays launches, the questions of the self-test would come too late.
  if (option(argc, argv, "--trust-mapped", 0) != 0) cuda::trust_mapped_memory();
  const cuda::Probe found = cuda::probe(gpu);
  if (!found.usable) {
    std::fprintf(stderr, "no GPU to test on: %s\n", found.reason.c_str());
    return 2;
  }
  try {
    u64 replays = 0;
    for (const bool names_stream : {false, true}) {
      const auto live = [&](const LifeShape& shape, u64 times) {
        run(shape, gpu, seed + replays, times, names_stream);
        replays += times;
      };
      live(kOne, steps / 20 + 1);
      live(kShortRows, steps);
      live(kLongRows, steps / 5 + 1);
      live(kManyRows, steps / 20 + 1);
    }
    std::printf("{ \"device\": \"%s\", \"graphReplays\": %llu, \"equal\": true }\n", found.reason.c_str(), wide(replays));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code, error.message.c_str());
    return 1;
  }
  return 0;
}
