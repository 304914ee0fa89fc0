// A host state and a mirror of it, for the tests of the mirror.
#pragma once

#include "../../host/mirror/mirror.h"
#include "../support/emulated_device.h"
#include "../workload/workload.h"

namespace blockstep::test {

constexpr u32 kDepth = 3;

/// A host state, and a mirror of it.
struct Pair {
  Pair(const Config& config, u32 words, u32 members, const Accidents& accidents = {}, u64 max_waiting = kMaxWaitingWords)
      : host(config), mirror(make(config, words, members, accidents), {kDepth, words, config.num_blocks, max_waiting}) {}

  std::unique_ptr<Device> make(const Config& config, u32 words, u32 members, const Accidents& accidents) {
    auto made = std::make_unique<EmulatedDevice>(config, kDepth, words, members, accidents);
    device = made.get();
    return made;
  }

  void apply(const Log& log) {
    if (log.words.empty()) return;
    host.apply(log);
    EXPECT(host.results.fault == kNoFault, "%s", describe(host.results.fault));
    mirror.append(log.words.data(), log.size(), host.results.num_ids, host.state.rolling_digest);
  }

  void settle() {
    while (mirror.poll(), !mirror.idle()) std::this_thread::yield();
  }

  Machine host;
  EmulatedDevice* device = nullptr;
  Mirror mirror;
};

/// The code that a call throws, or "".
template <class Call>
static std::string code_of(const Call& call, std::string& message) {
  try {
    call();
  } catch (const Error& error) {
    message = error.message;
    return error.code;
  }
  return "";
}

static Log open_rows(u32 from, u32 count) {
  Log log;
  for (u32 row = from; row < from + count; ++row) log.add(Op::kOpen, 0, {row});
  return log;
}

}  // namespace blockstep::test
