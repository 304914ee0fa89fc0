#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "../base/bounded.h"
#include "../memory/memory.h"
#include "../kernels/copy.h"
#include "../kernels/gather.h"
#include "../kernels/kernels.h"
#include "probe.h"

namespace blockstep::cuda {
namespace {

/// Maximum time of a word to the device and back. It is ten times the time of a bus or more. An
/// emulation of mapped memory takes longer.
#if defined(GPU_SHIM)
// The emulated GPU is a thread that may not be running.
constexpr std::chrono::nanoseconds kMostRoundTrip{3000000000};
constexpr std::chrono::milliseconds kAnswerPatience{3000};
#else
constexpr std::chrono::nanoseconds kMostRoundTrip{100000};
constexpr std::chrono::milliseconds kAnswerPatience = kMailboxPatience;
#endif

/// Formats a version of CUDA: 13020 is 13.2.
std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// Describes the oldest driver that runs programs of a runtime. Within a major version the first
/// driver suffices.
std::string oldest_driver(int runtime) {
  switch (runtime / 1000) {
    case 12: return "R525";
    case 13: return "R580";
    default: return "see the release notes of that CUDA";
  }
}

/// Describes why CUDA can use no GPU. `error` is the result of cudaGetDeviceCount().
std::string why_no_device(cudaError_t error) {
  int driver = 0;
  int runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) return "no CUDA driver: " + describe(error);
  return "CUDA cannot be used: " + describe(error) + "; the driver is for CUDA " + version(driver) +
         ", this build needs one for CUDA " + version(runtime / 1000 * 1000) + " or newer (" + oldest_driver(runtime) + ")";
}

void load_kernels() {
  const Kernels& all = kernels();
  const GatherKernels& gather = gather_kernels(false);
  const GatherKernels& by_group = gather_kernels(true);
  const CopyKernels& copy = copy_kernels();
  const DecideKernels& decide = decide_kernels();
  load({all.apply_common_small, all.apply_common_middle, all.apply_small, all.apply_middle, all.apply_large,
        all.apply_slot, all.initialise, all.count_parts, all.digest_parts, all.answer_mailbox,
        gather.small, gather.large, gather.staged, gather.fetch, gather.joint_small, gather.joint_large,
        by_group.small, by_group.large, by_group.staged, by_group.joint_small, by_group.joint_large, copy.small, copy.large,
        decide.small, decide.large, decide.slot});
}

/// Loads all kernels now. CUDA would load a kernel at its first use. It might then wait for all
/// work of this process on the GPU, for example an executor's kernel that never ends.
void load_in_time(u32 device) {
  if (returns_in_time(static_cast<int>(device), load_kernels)) return;
  throw Error{kCuda, "the kernels could not be loaded within " + std::to_string(kPatience.count()) +
                         " ms: the GPU is busy with something else"};
}

/// Memory, a stream and the kernel of one self-test. If the kernel outlives the test, it may write
/// to the memory at any time. None of this is freed then.
struct SelfTest {
  MappedMemory memory{sizeof(Mailbox)};
  Stream stream;
};

/// Runs the self-test of mapped memory once.
MailboxVerdict try_mapped_memory() {
  auto test = std::make_unique<SelfTest>();
  auto& mailbox = *reinterpret_cast<Mailbox*>(test->memory.base());
  Mailbox* argument = test->memory.on_device(&mailbox);
  u64 nanoseconds = u64{kAnswerPatience.count()} * 1000000;
  const auto start = [&] {
    void* arguments[] = {&argument, &nanoseconds};
    require(cudaLaunchKernel(kernels().answer_mailbox, dim3(1), dim3(1), arguments, 0, test->stream.get()),
            "launch of the self-test");
  };
  const auto ended = [&] { return query(test->stream.get()) != cudaErrorNotReady; };
  const MailboxVerdict verdict = self_test(mailbox, start, ended, kPatience, kAnswerPatience);
  // The kernel ends by itself, unless it has not begun.
  const auto patience = verdict.began ? kPatience : std::chrono::milliseconds(0);
  if (!wait_for(test->stream.get(), "the self-test", patience)) {
    count_abandoned(sizeof(Mailbox));
    static_cast<void>(test.release());
  }
  return verdict;
}

/// Runs the self-test up to three times. It may fail by chance if the host thread did not run for
/// too long. It always fails if mapped memory does not work.
MailboxVerdict test_mapped_memory() {
  MailboxVerdict verdict;
  for (u32 tries = 0; tries < 3; ++tries) {
    verdict = try_mapped_memory();
    if (!verdict.wrong || !verdict.began) break;
  }
  return verdict;
}

/// A GPU that has passed every check.
struct Usable {
  bool passed = false;
  std::string reason;  // name, compute capability, and result of the self-test
};
std::mutex& mutex() {
  static std::mutex* const one = new std::mutex;
  return *one;
}
std::vector<Usable>& usable() {
  static auto* const all = new std::vector<Usable>;
  return *all;
}
bool trusted = false;  // guarded by the mutex

std::string microseconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(time.count()) / 1000);
  return text;
}

/// Runs every check. Returns the reason.
std::string check_all(u32 device) {
  int can_map = 0;
  require(cudaDeviceGetAttribute(&can_map, cudaDevAttrCanMapHostMemory, static_cast<int>(device)),
          "cudaDeviceGetAttribute");
  if (!can_map) throw Error{kCuda, "the GPU cannot map host memory"};
  load_in_time(device);
  if (trusted) return name_of(device) + ", mapped memory not tested";
  const MailboxVerdict verdict = test_mapped_memory();
  if (verdict.wrong) throw Error{kCuda, std::string("mapped memory self-test failed: ") + verdict.wrong};
  if (verdict.round_trip > kMostRoundTrip) {
    throw Error{kCuda, "mapped memory self-test failed: a word took " + microseconds(verdict.round_trip) +
                           " us to the GPU and back, more than " + microseconds(kMostRoundTrip) +
                           " (as where mapped memory is emulated)"};
  }
  return name_of(device) + ", round trip " + microseconds(verdict.round_trip) + " us";
}

/// Checks the GPU, or if it has passed before, only whether it still exists. Returns the reason.
std::string check(u32 device) {
  require_device(device);
  const OnDevice on(static_cast<int>(device));
  const std::lock_guard lock(mutex());
  if (usable().size() <= device) usable().resize(device + 1);
  Usable& known = usable()[device];
  if (known.passed) {
    const cudaError_t status = query(on.gpu().service);
    if (status != cudaErrorNotReady) require(status, "work on the GPU");
  } else {
    known.reason = check_all(device);
    known.passed = true;
  }
  return known.reason;
}

}  // namespace

void require_device(u32 device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw Error{kCuda, why_no_device(error)};
  }
  if (device >= static_cast<u32>(count)) {
    throw Error{kCuda, "there is no GPU " + std::to_string(device) + ": CUDA sees " + std::to_string(count)};
  }
}

void require_usable(u32 device) { static_cast<void>(check(device)); }

void trust_mapped_memory() {
  const std::lock_guard lock(mutex());
  trusted = true;
}

void forget_usable() {
  const std::lock_guard lock(mutex());
  usable().clear();
  trusted = false;
}

std::string name_of(u32 device) {
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, static_cast<int>(device)), "cudaGetDeviceProperties");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor);
}

Probe probe(u32 device) {
  try {
    std::string reason = check(device);
    if (const u64 bytes = abandoned_bytes()) {
      reason += ", " + std::to_string(bytes) + " bytes stay allocated for work that did not end";
    }
    return {true, reason};
  } catch (const Error& error) {
    return {false, error.message};
  }
}

}  // namespace blockstep::cuda
