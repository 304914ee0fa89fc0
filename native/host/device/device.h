// Device: what is asked of a device that keeps a second instance of the state. A mirror (../mirror/mirror.h) asks it to
// apply logs; a core that follows it (../decided/decisions.h) asks it to decide batches. CUDA implements it
// (cuda/device/cuda_device.h); the tests have a device of threads.
//
// A device does everything in the order in which it was given, and says so in completions. A completion is one 64-bit
// word in memory that both sides see. Nothing here waits for a device.
#pragma once

#include <atomic>

#include "../../core/base/state.h"

namespace blockstep {

/// What a device says when it is done with a log, a digest or a decision. Each has a cache line of its own.
struct alignas(64) Completion {
  std::atomic<u64> word;  // number of the log << 32 | fault; written last, with release. 0: nothing yet
  u64 digest;             // valid once the word is there: the rolling digest after the log, or the digest of the state
};
static_assert(std::atomic<u64>::is_always_lock_free && sizeof(std::atomic<u64>) == 8 && sizeof(Completion) == 64);

BLOCKSTEP_HD constexpr u64 completion_word(u32 number, u32 fault) { return u64{number} << 32 | fault; }

/// How a log travels. By value it is part of the launch itself, so nothing can overwrite it before it is read; CUDA
/// allows 4 KB of parameters on every GPU and 32,764 bytes since Volta. A longer log lies in a ring slot, which the host
/// leaves alone until the log's completion has come back.
enum class Carrier : u32 { kSmall, kLarge, kSlot };

constexpr u32 kParameterHead = 20;  // bytes of a launch that are not the log: an address, and three words
constexpr u32 kSmallWords = (4096 - kParameterHead) / 4;
constexpr u32 kLargeWords = (32764 - kParameterHead) / 4;
/// Words that fit into every ring slot: more than an admission of 126,000 tokens in blocks of 16 takes, keys included.
constexpr u32 kSlotWords = 1u << 16;

constexpr Carrier carrier_of(u32 words) {
  return words <= kSmallWords ? Carrier::kSmall : words <= kLargeWords ? Carrier::kLarge : Carrier::kSlot;
}

/// Words of a ring slot for this configuration. The longest command must fit: an Open of a row that hits all its
/// blocks, or a command of the length at which LogWriter cuts all others.
constexpr u32 slot_words(const Config& config) {
  const u32 open = config.max_blocks_per_row + 2;
  return open > kSlotWords ? open : kSlotWords;
}

/// A log on its way: its number (from 1, of 32 bits), and the ring slot and the completion that belong to it.
struct Job {
  u32 number;
  u32 slot;
};

class DeviceTables;
struct TablesShape;

class Device {
 public:
  virtual ~Device() = default;

  /// The memory of a ring slot, slot_words() words.
  virtual u32* slot(u32 index) = 0;
  virtual const Completion& completion(u32 slot) const = 0;
  virtual const Completion& digest_completion() const = 0;

  /// Gives the device a log of at most kSmallWords or kLargeWords words; it is copied before this returns. @throws Error
  virtual void apply_value(Job job, Carrier carrier, const u32* log, u32 words) = 0;
  /// Gives the device the first `words` words of the job's slot. @throws Error
  virtual void apply_slot(Job job, u32 words) = 0;
  /// Asks for the digest of the state as it is after the logs given so far. @throws Error
  virtual void start_digest(u32 number) = 0;

  // Decisions, one at a time, numbered from 1. Only for a device that was opened to decide.
  /// The memory of a batch that is too long for a launch; decision_room().batch_words words.
  virtual u32* batch() = 0;
  /// Where the decision lands. Valid from when its completion's word is there until the next batch is given.
  virtual const u32* decision() const = 0;
  virtual const Completion& decision_completion() const = 0;
  /// Gives the device a batch of at most kSmallWords or kLargeWords words; it is copied before this returns. @throws
  /// Error
  virtual void decide_value(u32 number, Carrier carrier, const u32* batch, u32 words) = 0;
  /// Gives the device the first `words` words of batch(). @throws Error
  virtual void decide_slot(u32 number, u32 words) = 0;

  /// Work that is given to the device from now on happens behind all that is queued in `stream` now. @throws Error
  virtual void follow(u64 stream) = 0;
  /// Work that is queued in `stream` from now on happens behind all that was given to the device. @throws Error
  virtual void lead(u64 stream) = 0;

  /// Makes the tables of a step (device_tables.h), all padding, with `num_slots` slots for long messages. At most once;
  /// a call that throws has made none. @throws Error kNoMemory, kCuda
  virtual DeviceTables& make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) = 0;

  /// Is the device still there? Asked when a completion is late. @throws Error
  virtual void check() = 0;

  virtual u64 device_bytes() const = 0;
  /// Memory of the host that the device can read and write.
  virtual u64 pinned_bytes() const = 0;
};

}  // namespace blockstep
