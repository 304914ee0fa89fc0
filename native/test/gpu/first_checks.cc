// The first checks of an unknown GPU: whether it is usable, and how it works beside other code.
//
//   first_checks --check probe     the self-test a hundred times, and the GPU's reported features
//   first_checks --check capture   another thread captures in Global mode beside a core and a lane
//   first_checks --check held      a kernel holds the whole GPU while objects open and close
//
// Prints its findings, a line each. Exit codes: 0 as expected, 1 not as expected, 2 no usable GPU.
#include <atomic>
#include <cstring>
#include <thread>

#include "../../cuda/device/cuda_device.h"
#include "../../cuda/device/probe.h"
#include "../../transfer/completion_ring.h"
#include "../support/support.h"
#include "spin.h"

using namespace blockstep;
using namespace blockstep::test;
using Clock = std::chrono::steady_clock;

namespace {

constexpr Config kPool{4096, 64, 256, 0};
constexpr u64 kBlockBytes = 65536;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Runs a call and prints its time and its exception.
template <class Call>
double timed(const char* what, const Call& call) {
  const auto start = Clock::now();
  std::string said = "done";
  try {
    call();
  } catch (const Error& error) {
    said = std::string(error.code) + ": " + error.message;
  }
  const double seconds = seconds_since(start);
  std::printf("%-24s %8.3f s  %s\n", what, seconds, said.c_str());
  std::fflush(stdout);
  return seconds;
}

std::unique_ptr<Device> open_core() { return cuda::open(kPool, {}); }

void apply_log(Device& device, u32 number) {
  Log log;
  log.add(Op::kOpen, 0, {number});
  log.add(Op::kExtend, 1, {number, 16});
  device.apply_value({number, 0}, Carrier::kSmall, log.words.data(), log.size());
  const auto start = Clock::now();
  while (device.completion(0).word.load(std::memory_order_acquire) >> 32 != number) {
    device.check();
    if (seconds_since(start) > 10) throw Error{kCuda, "a log was not applied within 10 s"};
  }
}

std::shared_ptr<BlockArena> arena(Place place) {
  return std::make_shared<BlockArena>(64, kBlockBytes, cuda::allocate_blocks(place, 0, 64 * kBlockBytes));
}

/// A core and a lane, used and destroyed.
void live() {
  const auto core = open_core();
  for (u32 number = 1; number <= 50; ++number) apply_log(*core, number);
  const auto ring = std::make_shared<CompletionRing>(4);
  const auto lane = cuda::open_lane(ring, arena(Place::kPinned), arena(Place::kDevice), {});
  const std::int32_t blocks[] = {1, 3, 5};
  lane->submit({blocks, 3}, {blocks, 3}, Lane::kNoFence);
  lane->fence();
  std::int32_t pair[2] = {};
  if (ring->drain(pair, 1).pairs != 1 || pair[1] != static_cast<std::int32_t>(Verdict::kOk)) throw Error{kCuda, "a copy failed"};
}

bool check_probe() {
  for (u32 i = 0; i < 100; ++i) {
    cuda::forget_usable();
    const cuda::Probe found = cuda::probe(0);
    if (i % 20 == 0 || !found.usable) std::printf("%u: %s\n", i, found.reason.c_str());
    if (!found.usable) return false;
  }
  const cuda::OnDevice on(0);
  const auto say = [](const char* name, cudaDeviceAttr attribute) {
    int value = 0;
    cuda::require(cudaDeviceGetAttribute(&value, attribute, 0), "cudaDeviceGetAttribute");
    std::printf("%s: %d\n", name, value);
  };
  say("multiprocessors", cudaDevAttrMultiProcessorCount);
  say("copy engines", cudaDevAttrAsyncEngineCount);
  say("pools of memory", cudaDevAttrMemoryPoolsSupported);
  const auto ring = std::make_shared<CompletionRing>(4);
  const auto lane = cuda::open_lane(ring, arena(Place::kPinned), arena(Place::kDevice), {});
  const DeviceLaneInfo& info = lane->info();
  std::printf("a lane: mode %u, completion %s\n", static_cast<u32>(info.mode),
              info.completion == CompletionMode::kWriteValue ? "by stores" : "by events");
  return true;
}

bool check_capture() {
  std::atomic<int> stage{0};
  cudaError_t ended = cudaErrorUnknown;
  std::thread other([&] {
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cuda::require(cudaStreamCreate(&stream), "cudaStreamCreate");
    cuda::require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    ended = cudaStreamEndCapture(stream, &graph);
  });
  while (stage != 1) std::this_thread::yield();
  bool lived = true;
  cuda::forget_usable();
  timed("beside a capture", [&] {
    lived = false;
    for (u32 i = 0; i < 10; ++i) live();
    lived = true;
  });
  stage = 2;
  other.join();
  std::printf("the capture ended with %s\n", cuda::describe(ended).c_str());
  return lived && ended == cudaSuccess;
}

bool check_held() {
  constexpr u32 kSeconds = 60;
  auto core = open_core();
  apply_log(*core, 1);
  auto device = arena(Place::kDevice);
  const auto pinned = arena(Place::kPinned);
  auto ring = std::make_shared<CompletionRing>(4);
  auto lane = cuda::open_lane(ring, pinned, device, {});
  const cuda::OnDevice on(0);
  const cuda::MappedMemory memory(sizeof(SpinWords));
  auto* const words = reinterpret_cast<SpinWords*>(memory.base());
  const auto word = [](u64& of) { return __atomic_load_n(&of, __ATOMIC_ACQUIRE); };
  const cuda::Stream theirs(cuda::Priority::kLowest);
  const u32 blocks = launch_spin(memory.on_device(words), kSeconds, theirs.get());
  const auto start = Clock::now();
  while (word(words->begun) == 0 && seconds_since(start) < 5) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::printf("%llu of %u thread blocks hold the GPU\n", wide(word(words->begun)), blocks);
  std::fflush(stdout);
  double most = 0;
  const auto time = [&](const char* what, const auto& call) { most = std::max(most, timed(what, call)); };
  time("open a core", [] { open_core(); });
  time("open a lane", [&] { cuda::open_lane(ring, pinned, device, {}); });
  time("destroy a lane", [&] { lane.reset(); });
  time("destroy a core", [&] { core.reset(); });
  time("destroy an arena", [&] { device.reset(); });
  time("a first self-test", [] {
    cuda::forget_usable();
    open_core();
  });
  std::printf("%llu bytes were abandoned\n", wide(cuda::abandoned_bytes()));
  const bool still_held = !cuda::is_over(theirs.get(), std::chrono::milliseconds(0));
  __atomic_store_n(&words->end, 1, __ATOMIC_RELEASE);
  timed("the foreign kernel", [&] {
    if (!cuda::wait_for(theirs.get(), "the foreign kernel")) cuda::give_up("the foreign kernel", 0);
  });
  bool lives = false;
  timed("afterwards", [&] {
    live();
    lives = true;
  });
  std::printf("the longest call took %.3f s\n", most);
  return still_held && lives && most < 15;
}

}  // namespace

int main(int argc, char** argv) {
  const char* check = "";
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--check") == 0) check = argv[i + 1];
  }
  const cuda::Probe found = cuda::probe(0);
  if (!found.usable) {
    std::fprintf(stderr, "no GPU to check: %s\n", found.reason.c_str());
    return 2;
  }
  try {
    bool sound = false;
    if (std::strcmp(check, "probe") == 0) sound = check_probe();
    else if (std::strcmp(check, "capture") == 0) sound = check_capture();
    else if (std::strcmp(check, "held") == 0) sound = check_held();
    else std::fprintf(stderr, "--check must be probe, capture or held, got %s\n", check);
    std::fflush(stdout);
    std::_Exit(sound ? 0 : 1);  // does not wait for abandoned work
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code, error.message.c_str());
    return 1;
  }
}
