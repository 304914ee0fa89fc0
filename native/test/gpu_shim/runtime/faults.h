// Faults of the emulated GPU. Every CUDA call reads them from the environment variable
// EMULATED_GPU, so that a test can change them while it runs: a list like "fail=12,delay=50". A new
// value restarts all counts, and restores a lost device.
//
//   devices=N    number of GPUs (default 1)
//   none         there is no driver
//   old=N        the driver is for CUDA N, as in 12080, which is older than this runtime
//   memory=N     bytes of device memory (default 2^30)
//   fail=N       the N-th call fails with cudaErrorInvalidValue, and has no other effect; queries
//                and calls that free resources are not counted
//   ask=N        the N-th query fails; a waiting program makes any number of them: which device is
//                current, whether a stream or an event is done
//   lose=N       from the N-th launch on the device is lost: no work runs, every call fails
//   hang=N       the N-th launch and all work after it never end
//   skip=N       the N-th launch does nothing
//   delay=N      every piece of work takes N microseconds longer
//   hold         no piece of work begins until this is removed, so that tests know what is open
//   spin         a foreign kernel holds all multiprocessors until this is removed: no kernel
//                begins, copies do, and calls that free memory or wait for the device wait for it
//   late=N       work of the default stream takes N microseconds longer: a copy of pageable memory
//                that has returned early
//   taken=M      other processes own the GPUs of this bit mask exclusively, so they give no context
//   poolless     the GPUs have no memory pools
//   managed      pinned memory is of another kind, like under confidential computing
//   occupancy=N  number of thread blocks of any kernel that fit on a multiprocessor (default 6)
//   poke=A       once, before the next piece of work: the 32-bit word at address A of the device's
//                memory becomes `value`
//   value=N      see poke
//   mute         the stores of cuStreamWriteValue64() do not arrive
//   tardy=N      they arrive N microseconds later than the following work
//   storeless    cuStreamWriteValue64() is not supported
//   unguarded    device memory stays readable for the host
#pragma once

#include <cstdint>

namespace gpu_shim {

struct Faults {
  bool none = false;
  bool mute = false;
  bool storeless = false;
  bool unguarded = false;
  bool hold = false;
  bool spin = false;
  bool poolless = false;
  bool managed = false;
  std::uint64_t old = 0;
  std::uint64_t devices = 1;
  std::uint64_t memory = std::uint64_t{1} << 30;
  std::uint64_t fail = 0;
  std::uint64_t ask = 0;
  std::uint64_t lose = 0;
  std::uint64_t hang = 0;
  std::uint64_t skip = 0;
  std::uint64_t delay = 0;
  std::uint64_t poke = 0;
  std::uint64_t value = 0;
  std::uint64_t taken = 0;
  std::uint64_t late = 0;
  std::uint64_t tardy = 0;
  std::uint64_t occupancy = 6;
};

/// The faults at the last call. Any thread.
Faults faults();
/// Reads the environment. Only for threads of the host, and not for calls that only wait for work
/// to end.
void read_faults();
/// Counts a call that can fail, or a query. Returns true if it is the failing one.
bool fails_now(bool is_question);
/// The address to poke now, 0 for none. Returns it only once.
std::uint64_t take_poke();
enum class Fate { kRuns, kSkipped, kHangs, kLost };
/// Counts a launch, and returns its fate.
Fate fate_of_launch();

}  // namespace gpu_shim
