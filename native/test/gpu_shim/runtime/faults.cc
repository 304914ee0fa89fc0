#include "faults.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "stream.h"

namespace gpu_shim {
namespace {

struct State {
  std::mutex gate;  // for read_faults(); `mutex` is locked inside
  std::mutex mutex;
  std::string text;
  Faults faults;
  std::uint64_t calls = 0;
  std::uint64_t questions = 0;
  std::uint64_t launches = 0;
  bool poked = false;
};
State& state() {
  static State* const one = new State;
  return *one;
}

void read(const std::string& text, Faults& faults) {
  const struct {
    const char* name;
    std::uint64_t* value;
  } numbers[] = {{"devices", &faults.devices}, {"memory", &faults.memory}, {"fail", &faults.fail},
                 {"ask", &faults.ask},         {"lose", &faults.lose},     {"hang", &faults.hang},
                 {"skip", &faults.skip},       {"delay", &faults.delay},   {"poke", &faults.poke},
                 {"value", &faults.value},   {"taken", &faults.taken},   {"late", &faults.late},
                 {"occupancy", &faults.occupancy}, {"tardy", &faults.tardy},
                 {"old", &faults.old}};
  const struct {
    const char* name;
    bool* value;
  } flags[] = {{"none", &faults.none}, {"mute", &faults.mute}, {"storeless", &faults.storeless},
               {"unguarded", &faults.unguarded}, {"hold", &faults.hold}, {"spin", &faults.spin},
               {"poolless", &faults.poolless}, {"managed", &faults.managed}};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    bool known = item.empty();
    for (const auto& [name, value] : flags) {
      if (item != name) continue;
      *value = true;
      known = true;
    }
    for (const auto& [name, value] : numbers) {
      const std::string head = std::string(name) + "=";
      if (item.compare(0, head.size(), head) != 0) continue;
      *value = std::strtoull(item.c_str() + head.size(), nullptr, 10);
      known = true;
    }
    if (!known) std::abort();  // a test with an unknown fault would prove nothing
  }
}

/// The caller holds the mutex. Returns whether the faults have changed.
bool refresh(State& one) {
  const char* value = std::getenv("EMULATED_GPU");
  const char* text = value ? value : "";
  if (one.text == text) return false;
  one.text = text;
  one.faults = {};
  one.calls = one.questions = one.launches = 0;
  one.poked = false;
  read(one.text, one.faults);
  return true;
}

}  // namespace

Faults faults() {
  State& one = state();
  const std::lock_guard lock(one.mutex);
  return one.faults;
}

void read_faults() {
  State& one = state();
  // A concurrent call under the new faults waits for the revival, which would otherwise undo the
  // loss that the call causes.
  const std::lock_guard gate(one.gate);
  bool is_new;
  {
    const std::lock_guard lock(one.mutex);
    is_new = refresh(one);
  }
  // Without that lock, because unfinished work of the lost device reads its faults before it ends.
  if (is_new) revive_device();
}

bool fails_now(bool is_question) {
  State& one = state();
  const std::lock_guard lock(one.mutex);
  return is_question ? ++one.questions == one.faults.ask : ++one.calls == one.faults.fail;
}

std::uint64_t take_poke() {
  State& one = state();
  const std::lock_guard lock(one.mutex);
  if (one.poked) return 0;
  one.poked = true;
  return one.faults.poke;
}

Fate fate_of_launch() {
  State& one = state();
  const std::lock_guard lock(one.mutex);
  const std::uint64_t launch = ++one.launches;
  if (one.faults.lose != 0 && launch >= one.faults.lose) return Fate::kLost;
  if (launch == one.faults.hang) return Fate::kHangs;
  return launch == one.faults.skip ? Fate::kSkipped : Fate::kRuns;
}

}  // namespace gpu_shim
