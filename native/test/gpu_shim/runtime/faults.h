// What goes wrong on the emulated GPU. Read from the environment variable EMULATED_GPU whenever a CUDA call is made, so
// that a test can set it while it runs: a list like "fail=12,delay=50". A new value begins to count anew, and a device that
// was lost is there again.
//
//   devices=N    so many GPUs (default 1)
//   none         there is no driver
//   old=N        there is one for CUDA N, as in 12080, which is older than this runtime
//   memory=N     bytes of device memory (default 2^30)
//   fail=N       the N-th call fails with cudaErrorInvalidValue, questions and what gives back not counted; nothing else
//                is wrong
//   ask=N        so does the N-th question, of which a program that waits asks any number: which device is current,
//                whether a stream or an event is done
//   lose=N       from the N-th launch on the device is lost: nothing is executed, every call fails
//   hang=N       the N-th launch never ends, nor does what is behind it
//   skip=N       the N-th launch does nothing
//   delay=N      every piece of work takes N microseconds longer
//   hold         no piece of work is begun before this is gone, so that a test knows what is not over
//   spin         a foreign kernel holds all multiprocessors before this is gone: no kernel is begun, copies are, and what
//                frees memory or waits for the whole device waits for it
//   late=N       work of the default stream takes N microseconds longer: a copy of pageable memory that has returned early
//   taken=M      other processes have the GPUs of this bit mask for themselves: they give no context any more
//   poolless     the GPUs have no pools of memory
//   managed      what is to be pinned memory is of another kind, as under confidential computing
//   occupancy=N  so many thread blocks of any kernel fit on a multiprocessor (default 6)
//   poke=A       once, before the next piece of work: the 32-bit word at address A of the device's memory becomes `value`
//   value=N      see poke
//   mute         what cuStreamWriteValue64() was to store does not come
//   tardy=N      it comes N microseconds later than what is behind it
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

/// What the environment said at the last call. Any thread.
Faults faults();
/// Reads the environment. For threads that may: the host's, not those that only wait for work to end.
void read_faults();
/// Counts a call that can fail, or a question: true if it is the one that does.
bool fails_now(bool is_question);
/// The address that is to be poked now, 0 for none. Answers once.
std::uint64_t take_poke();
enum class Fate { kRuns, kSkipped, kHangs, kLost };
/// Counts a launch, and says what becomes of it.
Fate fate_of_launch();

}  // namespace gpu_shim
