// Device: the interface of a device that keeps a second instance of the state. A mirror
// (../mirror/mirror.h) gives it logs to apply. A core whose device decides (../decided/decisions.h)
// gives it batches to decide. CUDA implements the interface (cuda/device/cuda_device.h). The tests
// have a device of threads.
//
// A device works in the order in which the work was given, and reports it by completions. A
// completion is a 64-bit word in memory that host and device share. No call of this interface waits
// for the device.
#pragma once

#include <atomic>

#include "../../core/base/state.h"

namespace blockstep {

/// Words that a device writes when a log, a digest, a decision or a gather is done. Each completion
/// has its own cache line. Every word contains the number of the work, which identifies it. A
/// device may therefore write the words in any order, and saves the microsecond that waiting
/// between two writes would take.
struct alignas(64) Completion {
  std::atomic<u64> word;     // number << 32 | fault. 0: not done
  // Number << 32 | half of a digest, lower half first: the rolling digest after a log, or the
  // digest of the state. Decisions and gathers have no digest.
  std::atomic<u64> half[2];
};
static_assert(std::atomic<u64>::is_always_lock_free && sizeof(std::atomic<u64>) == 8 && sizeof(Completion) == 64);

BLOCKSTEP_HD constexpr u64 completion_word(u32 number, u32 fault) { return u64{number} << 32 | fault; }
BLOCKSTEP_HD constexpr u64 half_word(u32 number, u64 digest, u32 which) {
  return u64{number} << 32 | static_cast<u32>(digest >> (32 * which));
}

/// Whether both halves of the digest of work `number` have arrived.
inline bool has_digest(const Completion& completion, u32 number) {
  return completion.half[0].load(std::memory_order_acquire) >> 32 == number &&
         completion.half[1].load(std::memory_order_acquire) >> 32 == number;
}
/// The digest, once has_digest().
inline u64 digest_of(const Completion& completion) {
  return static_cast<u32>(completion.half[0].load(std::memory_order_relaxed)) |
         completion.half[1].load(std::memory_order_relaxed) << 32;
}

/// How a log travels to the device. A short log is a parameter of the launch (kSmall, kLarge), so
/// it cannot be overwritten before it is read. CUDA allows 4 KB of parameters on every GPU, and
/// 32,764 bytes since Volta. A longer log lies in a ring slot (kSlot), which the host reuses only
/// after the log's completion has arrived.
enum class Carrier : u32 { kSmall, kLarge, kSlot };

// Bytes of the parameters before the log: addresses, and some words.
constexpr u32 kParameterHead = 96;
/// A multiple of 16 bytes, because a kernel reads the parameter in such pieces.
constexpr u32 kSmallWords = (4096 - kParameterHead) / 16 * 4;
constexpr u32 kLargeWords = (32764 - kParameterHead) / 16 * 4;
/// Words that fit into every ring slot: enough for an admission of 126,000 tokens in blocks of 16,
/// keys included.
constexpr u32 kSlotWords = 1u << 16;

constexpr Carrier carrier_of(u32 words) {
  return words <= kSmallWords ? Carrier::kSmall : words <= kLargeWords ? Carrier::kLarge : Carrier::kSlot;
}

/// Words of a ring slot for this configuration. The longest command must fit. This is an Open of a
/// row whose blocks are all hits, because LogWriter cuts all other commands at kMaxCommandWords.
constexpr u32 slot_words(const Config& config) {
  const u32 open = config.max_blocks_per_row + 2;
  return open > kSlotWords ? open : kSlotWords;
}

/// An outstanding log: its number (from 1, modulo 2^32), and the index of both its ring slot and
/// its completion.
struct Job {
  u32 number;
  u32 slot;
};

class DeviceTables;
struct GatherHead;
struct TablesShape;

class Device {
 public:
  virtual ~Device() = default;

  /// The memory of a ring slot: slot_words() words.
  virtual u32* slot(u32 index) = 0;
  virtual const Completion& completion(u32 slot) const = 0;
  virtual const Completion& digest_completion() const = 0;

  /// Gives the device a log of at most kSmallWords or kLargeWords words, which is copied before the
  /// call returns. @throws Error
  virtual void apply_value(Job job, Carrier carrier, const u32* log, u32 words) = 0;
  /// Gives the device the first `words` words of the job's slot. @throws Error
  virtual void apply_slot(Job job, u32 words) = 0;
  /// Asks for the digest of the state after all logs given so far. The answer goes to
  /// digest_completion(). @throws Error
  virtual void start_digest(u32 number) = 0;

  // Decisions, one at a time, numbered from 1. Only for a device that was opened to decide.
  /// The memory for a batch that is too long for a parameter: decision_room().batch_words words.
  virtual u32* batch() = 0;
  /// The memory of the decision. Valid from its completion until the next batch is given.
  virtual const u32* decision() const = 0;
  virtual const Completion& decision_completion() const = 0;
  /// Gives the device a batch of at most kSmallWords or kLargeWords words, which is copied before
  /// the call returns. @throws Error
  virtual void decide_value(u32 number, Carrier carrier, const u32* batch, u32 words) = 0;
  /// Gives the device the first `words` words of batch(). @throws Error
  virtual void decide_slot(u32 number, u32 words) = 0;

  /// Whether a stream is capturing a graph. It must not be ordered with the device's work then.
  /// @throws Error
  virtual bool is_capturing(u64 stream) = 0;
  /// Orders the device's later work after all work that is queued in `stream` now. @throws Error
  virtual void follow(u64 stream) = 0;
  /// Orders work that is queued in `stream` from now on after all work given to the device. @throws
  /// Error
  virtual void lead(u64 stream) = 0;

  /// Makes the tables of a step (device_tables.h), filled with padding, and `num_slots` slots for
  /// long messages. May succeed once. A call that throws has made nothing. @throws Error kNoMemory,
  /// kCuda
  virtual DeviceTables& make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) = 0;
  /// Whether apply_and_gather() can replace a log and a gather that directly follows.
  virtual bool joins() const = 0;
  /// Gives the device a log of common commands (core/blocks/apply.h) and a following gather, as one
  /// piece of work. Together they have at most kLargeJointWords words, which are copied before the
  /// call returns. @throws Error
  virtual void apply_and_gather(Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) = 0;

  /// Checks that the device still works. Called when a completion is late. @throws Error if the
  /// device does not work
  virtual void check() = 0;

  /// Bytes allocated on the device.
  virtual u64 device_bytes() const = 0;
  /// Bytes of pinned host memory, which the device can read and write.
  virtual u64 pinned_bytes() const = 0;
};

}  // namespace blockstep
