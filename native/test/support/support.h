// Shared code of the test programs: expectations, a random source, a log builder, and a state in
// guarded memory.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../../core/blocks/apply.h"
#include "../../core/audit/check.h"
#include "../../core/audit/digest.h"
#include "../../core/audit/verify.h"
#include "../../base/error.h"

namespace blockstep::test {

/// A 64-bit number for %llu, whatever type u64 is on this machine.
inline unsigned long long wide(u64 value) { return value; }

/// Ends the program with a message about the failed condition.
#define EXPECT(condition, ...)                                                    \
  do {                                                                            \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "%s:%d: expected %s\n  ", __FILE__, __LINE__, #condition); \
      std::fprintf(stderr, __VA_ARGS__);                                          \
      std::fprintf(stderr, "\n");                                                 \
      std::exit(1);                                                               \
    }                                                                             \
  } while (false)

/// Prints the message of an uncaught exception.
inline const std::terminate_handler kUncaught = std::set_terminate([] {
  try {
    if (std::current_exception()) throw;
  } catch (const Error& error) {
    std::fprintf(stderr, "uncaught %s: %s\n", error.code, error.message.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uncaught: %s\n", error.what());
  } catch (...) {
  }
  std::abort();
});

/// A seeded random source. SplitMix64 gives the same sequence for a seed on every machine.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed) {}

  u64 next() {
    u64 x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  /// A number in [0, limit); limit > 0.
  u32 below(u64 limit) { return static_cast<u32>((next() >> 32) % limit); }

  /// True once in `times`.
  bool one_in(u32 times) { return below(times) == 0; }

 private:
  u64 state_;
};

/// An unfinished log.
struct Log {
  std::vector<u32> words;

  void add(Op op, u32 count, const std::vector<u32>& payload) {
    words.push_back(head_word(op, count));
    words.insert(words.end(), payload.begin(), payload.end());
  }
  u32 size() const { return static_cast<u32>(words.size()); }
};

/// A state whose arrays are separate allocations, so that the address sanitizer sees accesses
/// beyond their ends.
class Machine {
 public:
  explicit Machine(const Config& config) {
    bind_state(state, config, nullptr);
    state.blocks = own<Block>(config.num_blocks);
    state.ring = own<u32>(ring_places(config));
    state.live = own<u32>(ring_places(config) / 32);
    state.buckets = own<u32>(num_buckets(config));
    state.rows = own<Row>(config.num_rows);
    state.grants = own<Grant>(config.num_rows);
    state.row_blocks = own<u32>(u64{config.num_rows} * config.max_blocks_per_row);
    init_state(state);
  }

  /// Applies a log with the team of one. The answer is in `results`, the taken blocks in `ids`.
  void apply(const Log& log) {
    SoloTeam solo;
    begin(log);
    blockstep::apply(solo, state, log.words.data(), log.size(), results);
    ids.resize(results.num_ids);
  }

  /// Prepares `results` for an apply() that the caller makes with another team.
  void begin(const Log& log) {
    const u32 room = taken_by(log.words.data(), log.size());
    EXPECT(room != kNone, "a malformed log");
    ids.assign(room + 1, kNone);  // never empty, because an empty vector's data() may be null
    results = {ids.data(), room, 0, 0, 0};
  }

  /// Becomes a copy of a machine of the same configuration.
  void take_over(const Machine& other) {
    const State mine = state;
    const Config& c = state.config;
    state = other.state;
    copy(state.blocks, mine.blocks, c.num_blocks);
    copy(state.ring, mine.ring, ring_places(c));
    copy(state.live, mine.live, ring_places(c) / 32);
    copy(state.buckets, mine.buckets, num_buckets(c));
    copy(state.rows, mine.rows, c.num_rows);
    copy(state.grants, mine.grants, c.num_rows);
    copy(state.row_blocks, mine.row_blocks, u64{c.num_rows} * c.max_blocks_per_row);
  }

  State state;
  Results results{};
  std::vector<u32> ids;

 private:
  /// Copies an array into this machine's array, and points the state to it.
  template <class T>
  static void copy(T*& array, T* ours, u64 count) {
    std::copy_n(array, count, ours);
    array = ours;
  }

  template <class T>
  T* own(u64 count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    EXPECT(memory != nullptr, "%zu bytes", bytes);
    std::memset(memory, 0, bytes);
    owned_.emplace_back(memory, std::free);
    return static_cast<T*>(memory);
  }

  std::vector<std::unique_ptr<void, void (*)(void*)>> owned_;
};

/// The free queue of a state, in order.
inline std::vector<u32> queue_of(const State& state) {
  std::vector<u32> queue;
  for (u64 place = state.head; place < state.tail; ++place) {
    const u32 at = static_cast<u32>(place) & state.ring_mask;
    if (state.live[at / 32] >> (at % 32) & 1) queue.push_back(state.ring[at]);
  }
  return queue;
}

/// The number after the option `name`. Options and numbers alternate.
inline u64 option(int argc, char** argv, std::string_view name, u64 otherwise) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (argv[i] == name) return std::strtoull(argv[i + 1], nullptr, 10);
  }
  return otherwise;
}

/// A number from the command line, for example the length of the run.
inline u64 argument(int argc, char** argv, int index, u64 otherwise) {
  return argc > index ? std::strtoull(argv[index], nullptr, 10) : otherwise;
}

}  // namespace blockstep::test
