// The byte-driven fuzzer: bytes become commands, check() decides which logs are valid, and these
// are applied.
//
// For any bytes, check() changes nothing, and a log that it accepts applies without a fault and
// keeps every invariant. A second state that gets the same commands one by one ends up the same.
//
//   fuzz [runs] [first seed]   random bytes, `runs` times
//   fuzz FILE...               replays the bytes of files, e.g. a corpus
//
// With clang, -fsanitize=fuzzer,address -DBLOCKSTEP_LIBFUZZER builds a libFuzzer target.
#include <fstream>
#include <iterator>

#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

/// Reads numbers from bytes; zeroes after their end.
class Bytes {
 public:
  Bytes(const u8* data, std::size_t size) : at_(data), end_(data + size) {}

  bool done() const { return at_ == end_; }
  u32 byte() { return done() ? 0 : *at_++; }
  u32 below(u32 limit) { return byte() % limit; }
  u32 word() {
    u32 value = 0;
    for (u32 i = 0; i < 4; ++i) value |= byte() << (8 * i);
    return value;
  }

 private:
  const u8* at_;
  const u8* end_;
};

struct Counts {
  u64 applied = 0, refused = 0, commands[9] = {};
};
static Counts counts;

/// Turns bytes into commands for one state. Rows and ids are mostly in range, counts are small, and
/// about one log in sixteen consists of raw words.
class Fuzzer {
 public:
  Fuzzer(const u8* data, std::size_t size)
      : bytes_(data, size), config_(config(bytes_)), machine_(config_), mirror_(config_) {}

  void run() {
    while (!bytes_.done()) {
      Log log;
      if (bytes_.below(16) == 0) {
        for (u32 n = bytes_.below(16); n != 0; --n) log.words.push_back(bytes_.word());
      } else {
        for (u32 n = 1 + bytes_.below(4); n != 0; --n) command(log);
      }
      play(log);
    }
  }

 private:
  static Config config(Bytes& bytes) {
    const u32 num_blocks = 2 + bytes.below(40);
    const u32 num_rows = 1 + bytes.below(6);
    const u32 max_blocks_per_row = 1 + bytes.below(12);
    const u32 bits = bytes.below(5);
    return {num_blocks, num_rows, max_blocks_per_row, bits == 4 ? 0 : kForceBits + bits};
  }

  u32 row() { return bytes_.below(config_.num_rows + (bytes_.below(32) == 0)); }
  u32 id() { return bytes_.below(16) == 0 ? bytes_.below(256) : 1 + bytes_.below(config_.num_blocks - 1); }

  void command(Log& log) {
    std::vector<u32> payload;
    const Op op = static_cast<Op>(1 + bytes_.below(8));
    u32 count = op == Op::kReset ? 0 : bytes_.below(6);
    switch (op) {
      case Op::kOpen: {
        payload.push_back(row());
        if (bytes_.below(2)) {  // half of the keys hit, the others are random
          const Key key{bytes_.below(8), 0};
          const u32 hit = find(machine_.state, key);
          count = hit != kNone;
          if (hit != kNone) payload.push_back(hit);
          break;
        }
        for (u32 i = 0; i < count; ++i) payload.push_back(id());
        break;
      }
      case Op::kExtend:
        for (u32 i = 0; i < count; ++i) payload.insert(payload.end(), {row(), bytes_.below(5)});
        break;
      case Op::kPublish:
        for (u32 i = 0; i < count; ++i) {
          payload.insert(payload.end(), {row(), bytes_.below(config_.max_blocks_per_row), bytes_.below(8), 0, 0, 0});
        }
        break;
      case Op::kRelease:
        for (u32 i = 0; i < count; ++i) payload.push_back(row());
        break;
      default:
        for (u32 i = 0; i < count; ++i) payload.push_back(id());
    }
    log.add(op, count, payload);
  }

  void play(const Log& log) {
    const u64 before = digest(machine_.state);
    const u64 rolling = machine_.state.rolling_digest;
    if (!check(machine_.state, log.words.data(), log.size())) {
      EXPECT(digest(machine_.state) == before && machine_.state.rolling_digest == rolling, "check() changed something");
      counts.refused += 1;
      return;
    }
    counts.applied += 1;
    machine_.apply(log);
    EXPECT(machine_.results.fault == kNoFault, "check() let through: %s", describe(machine_.results.fault));
    const char* broken = verify(machine_.state);
    EXPECT(broken == nullptr, "%s", broken);
    for (u32 at = 0; at < log.size();) {
      const u32 words = 1 + payload_words(log.words[at]);
      counts.commands[static_cast<u32>(op_of(log.words[at]))] += 1;
      const Log one{std::vector<u32>(log.words.begin() + at, log.words.begin() + at + words)};
      EXPECT(check(mirror_.state, one.words.data(), words), "check() refuses a part of what it let through");
      mirror_.apply(one);
      at += words;
    }
    EXPECT(digest(mirror_.state) == digest(machine_.state), "one by one, the state differs");
    EXPECT(mirror_.state.rolling_digest == machine_.state.rolling_digest, "one by one, the results differ");
  }

  Bytes bytes_;
  Config config_;
  Machine machine_;
  Machine mirror_;
};

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  Fuzzer(data, size).run();
  return 0;
}

#if !defined(BLOCKSTEP_LIBFUZZER)

static u64 current_seed = 0;
static bool finished = false;

static void say_how_to_reproduce() {
  if (finished || current_seed == 0) return;
  std::fprintf(stderr, "reproduce with: fuzz 1 %llu\n", wide(current_seed));
}

// Defined if a sanitizer is linked, which ends the process without exit handlers.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void run_seed(u64 seed) {
  current_seed = seed;
  Random random(seed);
  std::vector<u8> bytes(16 + random.below(1500));
  for (u8& byte : bytes) byte = static_cast<u8>(random.next() >> 56);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

static bool run_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  LLVMFuzzerTestOneInput(reinterpret_cast<const u8*>(bytes.data()), bytes.size());
  return true;
}

int main(int argc, char** argv) {
  std::atexit(say_how_to_reproduce);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(say_how_to_reproduce);
  const bool numbers = argc < 2 || argv[1][std::strspn(argv[1], "0123456789")] == '\0';
  if (numbers) {
    const u64 first = argument(argc, argv, 2, 1);
    const u64 runs = argument(argc, argv, 1, 2000);
    for (u64 seed = first; seed < first + runs; ++seed) run_seed(seed);
    static const char* const kNames[] = {"", "open", "extend", "publish", "release", "pin", "unpin", "evict", "reset"};
    std::printf("fuzz: %llu logs applied, %llu refused;", wide(counts.applied),
                wide(counts.refused));
    for (u32 op = 1; op <= 8; ++op) {
      std::printf(" %s %llu", kNames[op], wide(counts.commands[op]));
      EXPECT(runs < 1000 || counts.commands[op] > 0, "no %s was ever applied", kNames[op]);
    }
    std::printf("\n");
  }
  for (int i = 1; i < argc && !numbers; ++i) {
    EXPECT(run_file(argv[i]), "%s cannot be read", argv[i]);
    std::printf("fuzz: %s passes\n", argv[i]);
  }
  finished = true;
  return 0;
}

#endif
