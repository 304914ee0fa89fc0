// A core whose emulated device decides, with one request at a time.
#pragma once

#include "../support/emulated_device.h"
#include "../support/host_core.h"
#include "../workload/decided_comparison.h"

namespace blockstep::test {

static std::unique_ptr<EmulatedDevice> open_device(const Config& pool, u32 members, const Accidents& accidents = {}) {
  return std::make_unique<EmulatedDevice>(pool, 2, slot_words(pool), members, accidents);
}

constexpr u32 kBlockSize = 4;
constexpr u32 kEntries = 4;
constexpr u32 kPending = 4096;

struct Bench {
  explicit Bench(const Accidents& accidents = {}, Authority authority = Authority::kDevice, u32 lookahead = 0)
      : memory(Exchange::words_needed(kPending, 1, kEntries), 0),
        exchange(memory.data(), kPending, kEntries),
        core({{60, 10, 16, 0}, kBlockSize, kEntries, 1, kPending, lookahead, 64, true, Key{7, 9}, authority}, exchange,
             make(accidents), 2) {
    exchange.control(kHeadSlot) = -1;
  }

  std::unique_ptr<Device> make(const Accidents& accidents) {
    auto made = open_device({60, 10, 16, 0}, 0, accidents);
    device = made.get();
    return made;
  }

  u32 add(u32 tokens, std::int32_t first = 0) {
    std::vector<std::int32_t> prompt(tokens);
    for (u32 i = 0; i < tokens; ++i) prompt[i] = first + static_cast<std::int32_t>(i);
    return static_cast<u32>(core.add({prompt.data(), tokens}, u"", u"") % blockstep::kSlotLimit);
  }

  void push(PendingOp op, u32 slot, std::int32_t argument) {
    std::int32_t& n = exchange.control(kNumPending);
    exchange.pending()[2 * n] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange.pending()[2 * n + 1] = argument;
    n += 1;
  }

  static std::vector<std::int32_t> request(const std::vector<RequestAdmission>& admissions) {
    std::vector<std::int32_t> words = {1000, 100, static_cast<std::int32_t>(kUsual), 0, 64,
                                       static_cast<std::int32_t>(admissions.size()), 0, 0, 0, 0, 0, 0};
    for (const RequestAdmission& a : admissions) {
      words.insert(words.end(), {a.slot, a.num_computed, a.num_external, a.num_hits, a.flags});
    }
    return words;
  }

  void submit(const std::vector<std::int32_t>& words, u32 entries = 0) {
    core.submit_decision(0, 0, entries, {words.data(), static_cast<u32>(words.size())});
  }
  void submit(u32 slot) { submit(request({{static_cast<std::int32_t>(slot), 0, 0, -1, 0}})); }

  bool poll() { return core.poll_decision({answer, static_cast<u32>(std::size(answer))}); }
  void wait() {
    while (!poll()) std::this_thread::yield();
  }

  void enter(u32 entry, u32 slot, u32 computed, u32 scheduled) {
    const Frame frame = exchange.frame(0);
    const_cast<std::int32_t*>(frame.slots)[entry] = static_cast<std::int32_t>(slot);
    const_cast<std::int32_t*>(frame.computed)[entry] = static_cast<std::int32_t>(computed);
    const_cast<std::int32_t*>(frame.scheduled)[entry] = static_cast<std::int32_t>(scheduled);
  }

  std::vector<std::int32_t> memory;
  Exchange exchange;
  EmulatedDevice* device = nullptr;
  HostCore core;
  std::int32_t answer[kAnswerHead + 4 * kAnswerAdmission] = {};
};

/// The error that a call throws. Without an error, the code is "".
template <class Call>
static Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {"", ""};
}

static void expect_error(const Error& error, const char* code, const char* says, const char* what) {
  EXPECT(std::string(error.code) == code && error.message.find(says) != std::string::npos, "%s: %s %s", what, error.code,
         error.message.c_str());
}

}  // namespace blockstep::test
