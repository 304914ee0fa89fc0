// A whole host core with a mirror on an emulated device. Requests are added, decode, share prefixes
// and end, by the same calls that the addon makes. Every log reaches the device, and errors there
// poison the core. Two sanitizers.
#include "../../host/core.h"
#include "../support/emulated_device.h"

using namespace blockstep;
using namespace blockstep::test;

constexpr u32 kEntries = 16;
constexpr u32 kPending = 64;
constexpr u32 kBlockSize = 4;
constexpr u32 kMaxLen = 96;
constexpr u32 kLogs = 2;

static HostConfig host_config(u32 bucket_bits) {
  HostConfig config{};
  config.pool = {60, 12, kMaxLen / kBlockSize, bucket_bits};
  config.block_size = kBlockSize;
  config.max_entries = kEntries;
  config.num_frames = 1;
  config.pending_capacity = kPending;
  config.max_model_len = kMaxLen;
  config.caching = true;
  config.seed = {1, 2};
  return config;
}

/// A core, its exchange buffer, and the device behind its mirror.
struct Bench {
  explicit Bench(u32 bucket_bits, u32 members = 0, const Accidents& accidents = {})
      : words(Exchange::words_needed(kPending, 1, kEntries), 0),
        exchange(words.data(), kPending, kEntries),
        core(host_config(bucket_bits), exchange, make(host_config(bucket_bits).pool, members, accidents), kLogs) {}

  std::unique_ptr<Device> make(const Config& pool, u32 members, const Accidents& accidents) {
    auto made = std::make_unique<EmulatedDevice>(pool, kLogs, slot_words(pool), members, accidents);
    device = made.get();
    return made;
  }

  void push(PendingOp op, u32 slot, std::int32_t argument) {
    std::int32_t& n = exchange.control(kNumPending);
    exchange.pending()[2 * n] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange.pending()[2 * n + 1] = argument;
    n += 1;
    if (static_cast<u32>(n) == kPending) core.flush();
  }

  std::vector<std::int32_t> words;
  Exchange exchange;
  EmulatedDevice* device = nullptr;
  HostCore core;
};

/// Random requests, step by step, driven like by a scheduler.
class Life {
 public:
  Life(Bench& bench, u64 seed) : bench_(bench), random_(seed) {}

  void step() {
    while (running_.size() < kEntries && random_.one_in(2)) {
      if (!admit()) break;
    }
    decode();
    if (random_.one_in(6)) pins();
    if (random_.one_in(40)) end_all();
    bench_.core.submit({});
  }

 private:
  struct Request {
    u32 slot;
    u32 tokens;
  };

  bool admit() {
    std::vector<std::int32_t> prompt(1 + random_.below(40), static_cast<std::int32_t>(random_.below(3)));
    const u32 slot = static_cast<u32>(bench_.core.add({prompt.data(), static_cast<u32>(prompt.size())}, u"", u"") %
                                      kSlotLimit);
    const u32 tokens = static_cast<u32>(prompt.size());
    const u32 hits = bench_.core.match(slot, (tokens - 1) / kBlockSize);
    if (bench_.core.admit(slot, hits, tokens, tokens, tokens) < 0) {
      bench_.push(PendingOp::kClose, slot, 0);
      return false;
    }
    running_.push_back({slot, tokens});
    return true;
  }

  /// One token for each request. Requests that do not fit, or are long enough, end.
  void decode() {
    const Frame frame = bench_.exchange.frame(0);
    auto* slots = const_cast<std::int32_t*>(frame.slots);
    auto* scheduled = const_cast<std::int32_t*>(frame.scheduled);
    auto* computed = const_cast<std::int32_t*>(frame.computed);
    const u32 count = static_cast<u32>(running_.size());
    for (u32 i = 0; i < count; ++i) {
      bench_.push(PendingOp::kAppend, running_[i].slot, static_cast<std::int32_t>(random_.below(3)));
      slots[i] = static_cast<std::int32_t>(running_[i].slot);
      computed[i] = static_cast<std::int32_t>(running_[i].tokens);
      scheduled[i] = 1;
    }
    const u32 done = bench_.core.run(0, 0, count);
    std::vector<Request> left;
    for (u32 i = 0; i < count; ++i) {
      Request request = running_[i];
      request.tokens += 1;
      if (i >= done || request.tokens >= kMaxLen || random_.one_in(30)) {
        if (random_.one_in(4) && i < done) bench_.push(PendingOp::kEvict, request.slot, 1);
        bench_.push(PendingOp::kClose, request.slot, 0);
      } else {
        left.push_back(request);
      }
    }
    running_ = left;
  }

  void pins() {
    std::vector<std::int32_t> ids;
    for (u32 n = random_.below(5); n != 0; --n) ids.push_back(static_cast<std::int32_t>(1 + random_.below(59)));
    const Span<const std::int32_t> span{ids.data(), static_cast<u32>(ids.size())};
    bench_.core.pin(span);
    if (random_.one_in(3)) bench_.core.evict(span);
    bench_.core.unpin(span);
  }

  void end_all() {
    for (const Request& request : running_) bench_.push(PendingOp::kClose, request.slot, 0);
    running_.clear();
    EXPECT(bench_.core.reset(), "something is still in use");
  }

  Bench& bench_;
  Random random_;
  std::vector<Request> running_;
};

static u64 run(u32 bucket_bits, u32 members, u64 seed, u64 steps) {
  Bench bench(bucket_bits, members);
  Life life(bench, seed);
  for (u64 step = 0; step < steps; ++step) {
    life.step();
    if (step % 50 == 49) {
      bench.core.start_mirror_digest();
      while (!bench.core.mirror_digest()) std::this_thread::yield();
      EXPECT(*bench.core.mirror_digest() == bench.core.digest(), "step %llu", wide(step));
    }
  }
  while (!bench.core.poll()) std::this_thread::yield();
  const State& state = bench.device->machine.state;
  EXPECT(digest(state) == bench.core.digest(), "the states differ");
  EXPECT(state.rolling_digest == bench.core.rolling_digest(), "the results differ");
  EXPECT(state.evictions > 20 && state.num_taken > steps / 4, "%llu evictions, %llu blocks taken",
         wide(state.evictions), wide(state.num_taken));
  bench.core.verify();
  return state.num_commands;
}

/// An error of the mirror poisons the core, with the same message in all later calls.
static void test_poison() {
  struct Case {
    Accidents accidents;
    const char* code;
  };
  const Case cases[] = {
      {{.launch_fails = 4}, kCuda}, {{.lost = 4}, kCuda}, {{.wrong_digest = 4}, kMirror}, {{.damaged = 4}, kMirror}};
  for (const Case& test : cases) {
    Bench bench(0, 0, test.accidents);
    Life life(bench, 11);
    std::string first, again;
    try {
      for (u32 step = 0; step < 1000000; ++step) life.step();
    } catch (const Error& error) {
      EXPECT(std::string(error.code) == test.code, "%s instead of %s", error.code, test.code);
      first = error.message;
    }
    EXPECT(!first.empty(), "nothing was found");
    const auto calls = {+[](HostCore& core) { core.submit({}); }, +[](HostCore& core) { core.poll(); },
                        +[](HostCore& core) { core.flush(); }, +[](HostCore& core) { core.digest(); },
                        +[](HostCore& core) { core.start_mirror_digest(); },
                        +[](HostCore& core) { core.mirror_digest(); }};
    for (const auto call : calls) {
      again.clear();
      try {
        call(bench.core);
      } catch (const Error& error) {
        EXPECT(std::string(error.code) == test.code, "%s instead of %s", error.code, test.code);
        again = error.message;
      }
      EXPECT(again == first, "first \"%s\", then \"%s\"", first.c_str(), again.c_str());
    }
  }
}

/// Without a mirror, these calls do nothing.
static void test_host_only() {
  std::vector<std::int32_t> words(Exchange::words_needed(kPending, 1, kEntries), 0);
  HostCore core(host_config(0), Exchange(words.data(), kPending, kEntries));
  core.submit({});
  EXPECT(core.poll() && core.mirror() == nullptr, "a mirror out of nothing");
  core.start_mirror_digest();
  EXPECT(core.mirror_digest() == core.digest(), "another digest");
}

/// Only one digest can be pending, and a second request changes nothing.
static void test_second_digest() {
  Bench bench(0);
  bench.device->allow(0);
  bench.core.start_mirror_digest();
  const char* code = "";
  try {
    bench.core.start_mirror_digest();
  } catch (const Error& error) {
    code = error.code;
  }
  EXPECT(std::string(code) == kLimit, "%s", code);
  EXPECT(!bench.core.mirror_digest(), "a digest out of nothing");
  bench.device->allow(1);
  while (!bench.core.mirror_digest()) std::this_thread::yield();
}

/// A capturing stream is refused before any change, and the core continues.
static void test_capturing_stream() {
  Bench bench(0);
  Life life(bench, 11);
  for (u32 step = 0; step < 20; ++step) life.step();
  const u64 logs = bench.core.mirror()->logs();
  const char* code = "";
  try {
    bench.core.submit(EmulatedDevice::kCapturing);
  } catch (const Error& error) {
    code = error.code;
  }
  EXPECT(std::string(code) == kBadArg, "%s", code);
  EXPECT(bench.core.mirror()->logs() == logs && bench.device->followed.empty(), "ordered with it all the same");
  for (u32 step = 0; step < 20; ++step) life.step();
  bench.core.submit(77);
  EXPECT(bench.device->followed == std::vector<u64>{77}, "not ordered with another stream");
}

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 400);
  test_host_only();
  test_second_digest();
  test_capturing_stream();
  test_poison();
  u64 commands = 0, seed = 1;
  for (const u32 members : {0u, 2u}) {
    for (const u32 bits : {0u, kForceBits + 1}) commands += run(bits, members, seed++, steps);
  }
  std::printf("host core with a mirror: %llu commands, both the same; its accidents poison the core\n", wide(commands));
  return 0;
}
