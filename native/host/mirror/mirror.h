// The mirror: a second instance of the state on a device, which applies the log that the host has already applied.
//
// The host decides and never waits. append() keeps what was applied; submit(), once per step, gives it to the device
// in as few logs as possible. At most `max_logs` logs are outstanding. A log that comes while so many are on their way
// stays here, joins with what follows, and goes out as soon as a completion comes back. So a device that falls behind
// gets longer logs, not more of them. A device that never answers is given up at `max_waiting_words`.
//
// Nothing is read back. With every completion comes the rolling digest of the device's results, which must be the one
// that the host had after the same command.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../device/device.h"
#include "../../base/error.h"

namespace blockstep {

struct MirrorLimits {
  u32 max_logs;              // outstanding at once: one ring slot and one completion each
  u32 slot_words;            // longest log
  u32 max_taken;             // blocks that one log may take: the device has room for so many ids
  u64 max_waiting_words;     // words kept here while the device is behind
};

/// Enough for some hundred steps of the largest logs. A mirror that is so far behind will not catch up.
constexpr u64 kMaxWaitingWords = u64{1} << 24;

/// How many polls in a row may find nothing before the device is asked whether it is still there.
constexpr u32 kPatience = 64;

/// Throws Error: kMirror if the device's state is no longer the host's, or what the device throws. The mirror is of no
/// use then, and its owner stops calling it.
class Mirror {
 public:
  Mirror(std::unique_ptr<Device> device, const MirrorLimits& limits);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Takes over a log that the host has applied: whole commands, how many blocks they took (at most max_taken), and the
  /// host's rolling digest after them. Gives it to the device only if a whole slot is full. @throws Error, std::bad_alloc
  void append(const u32* log, u32 words, u32 taken, u64 rolling_digest);

  /// Gives the device the logs that wait, as far as the bound allows. With a stream they run behind what is queued
  /// there, and before what will be. @throws Error
  void submit(std::optional<u64> stream = {});

  /// Hands the logs that wait to the caller, who gives them to the device next: they are appended to `facts`, and the
  /// answer is true. If they are more than `limit` words, or a digest is to be made in front of some of them, they are
  /// submitted instead, and the answer says whether the device has been given all of them. @throws Error, std::bad_alloc
  bool hand_over(u64 limit, std::vector<u32>& facts);

  /// Reads the completions that have come, and refills. @throws Error
  void poll();

  /// Asks the device for the digest of its state after all logs that were appended, to be compared with the host's.
  /// @throws Error kLimit if one is under way
  void start_digest(u64 host_digest);
  /// The last digest that was asked for, once the device has confirmed it. poll() first.
  std::optional<u64> digest() const { return digest_; }

  /// The device was given everything that was submitted.
  bool all_given() const { return sent_ == ready_; }
  u32 outstanding() const { return static_cast<u32>(given_ - done_); }
  u64 waiting_words() const { return words_.size() - sent_; }
  u64 logs() const { return given_; }
  bool digest_pending() const { return digest_state_ != Digest::kAbsent; }
  /// Everything that was submitted has been applied by the device, and no digest is under way.
  bool idle() const { return given_ == done_ && sent_ == ready_ && !digest_pending(); }
  Device& device() { return *device_; }
  const Device& device() const { return *device_; }

 private:
  /// A boundary between two logs of the host, among the words that wait.
  struct Mark {
    u64 end;    // words before it
    u64 taken;  // blocks taken before it, ever
    u64 digest;
  };
  /// What the completion of an outstanding log must say.
  struct Expected {
    u32 number = 0;
    bool has_digest = false;
    u64 digest = 0;
    u64 last_word = 0;  // of the slot's completion, before this log
  };

  bool collect();
  bool collect_log();
  bool collect_digest();
  void pump();
  u64 cut(u64 limit);
  void launch(u64 end);
  void forget_sent();

  std::unique_ptr<Device> device_;
  const MirrorLimits limits_;
  std::vector<u32> words_;   // what was appended; the first sent_ are on their way or done
  std::vector<Mark> marks_;  // ascending; those before next_mark_ are behind
  u64 ready_ = 0;            // so many of words_ were submitted
  u64 sent_ = 0;
  std::size_t next_mark_ = 0;
  u64 taken_ = 0;       // blocks that all logs took, ever
  u64 sent_taken_ = 0;  // and those before the last mark that a log ended at
  std::vector<Expected> expected_;  // [max_logs], by slot
  u64 given_ = 0;  // logs given to the device, ever; the number of a log is its count, modulo 2^32
  u64 done_ = 0;   // logs whose completion came

  enum class Digest { kAbsent, kWaiting, kStarted };
  Digest digest_state_ = Digest::kAbsent;
  u64 digest_at_ = 0;  // while it waits: start it when so many of words_ are on their way
  u32 digest_number_ = 0;
  u64 host_digest_ = 0;
  std::optional<u64> digest_;

  u32 fruitless_polls_ = 0;
};

}  // namespace blockstep
