// Mirror: keeps a second instance of the state on a device, which applies the logs that the host has already applied.
//
// The host never waits for the device. append() keeps a log that was applied; submit(), once per step, gives the kept
// logs to the device, joined into as few logs as possible. At most `max_logs` logs are outstanding. Further logs wait
// here, join with those that follow, and go out when a completion comes. So a device that falls behind gets longer logs
// instead of more logs. A device that never answers is given up when `max_waiting_words` words wait.
//
// The state is not read back. Every completion carries the rolling digest of the device's results, which must equal the
// rolling digest that the host had after the same command.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../device/device.h"
#include "../../base/error.h"

namespace blockstep {

struct MirrorLimits {
  u32 max_logs;              // logs outstanding at once; each has a ring slot and a completion
  u32 slot_words;            // words of the longest log
  u32 max_taken;             // blocks that one log may take: ids that the device has room for
  u64 max_waiting_words;     // words kept here while the device is behind
};

/// 64 MiB, enough for some hundred steps with the largest logs. A mirror that is further behind will not catch up.
constexpr u64 kMaxWaitingWords = u64{1} << 24;

/// While no completion comes, Device::check() is called at this interval.
constexpr std::chrono::milliseconds kCheckInterval{2};

/// The methods throw Error: kMirror if the state of the device differs from that of the host, or an error of the
/// device. After an error the mirror cannot be used any more, and its owner stops calling it.
class Mirror {
 public:
  Mirror(std::unique_ptr<Device> device, const MirrorLimits& limits);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Keeps a copy of a log that the host has applied: whole commands, the number of blocks that they took (at most
  /// max_taken), and the host's rolling digest after them. Gives logs to the device only if the words that wait fill a
  /// slot. @throws Error, std::bad_alloc
  void append(const u32* log, u32 words, u32 taken, u64 rolling_digest);

  /// Gives the device the logs that wait, as far as max_logs allows. With a stream, they run after the work that is
  /// queued there now, and before work that is queued there later. @throws Error
  /// `holds`: a gather is expected right behind, see join(). The logs of one submit() may wait for it; a call of anything else gives
  /// them.
  void submit(std::optional<u64> stream = {}, bool holds = false);
  /// Gives the device the logs that wait; but the last of them, if it has at most `room` words and common commands alone, by
  /// `give`. Returns whether that was called. @throws Error, and what `give` throws
  using Give = std::function<void(Job job, const u32* log, u32 words)>;
  bool join(u32 room, const Give& give);

  /// Hands the logs that wait to the caller, who gives them to the device next: appends them to `facts` and returns
  /// true. If they are longer than `limit` words, or a digest waits to be started, they are submitted as logs instead;
  /// returns whether the device has been given all of them. @throws Error, std::bad_alloc
  bool hand_over(u64 limit, std::vector<u32>& facts);

  /// Takes the completions that have come, and gives the device logs that wait. @throws Error
  void poll();

  /// Asks the device for the digest of its state after all logs that were appended; it must equal `host_digest`.
  /// @throws Error kLimit if a digest is under way
  void start_digest(u64 host_digest);
  /// The digest that was asked for last, once the device has confirmed it. Call poll() first.
  std::optional<u64> digest() const { return digest_; }

  /// Whether the device was given everything that was submitted.
  bool all_given() const { return sent_ == ready_; }
  u32 outstanding() const { return static_cast<u32>(given_ - done_); }
  u64 waiting_words() const { return words_.size() - sent_; }
  u64 logs() const { return given_; }
  bool digest_pending() const { return digest_state_ != Digest::kAbsent; }
  /// Whether the device has applied everything that was submitted, and no digest is under way.
  bool idle() const { return given_ == done_ && sent_ == ready_ && !digest_pending(); }
  Device& device() { return *device_; }
  const Device& device() const { return *device_; }

 private:
  /// A boundary between two logs of the host among words_.
  struct Mark {
    u64 end;     // words before the mark
    u64 taken;   // blocks taken before the mark since the start
    u64 digest;  // the host's rolling digest at the mark
  };
  /// What the completion of an outstanding log must carry.
  struct Expected {
    u32 number = 0;
    bool has_digest = false;
    u64 digest = 0;
    u64 last_word = 0;  // value of the slot's completion before this log
  };

  bool collect();
  bool collect_log();
  bool collect_digest();
  void check_in_time();
  void pump();
  u64 cut(u64 limit);
  void launch(u64 end);
  void launch_by(u64 end, const Give& give);
  u64 next_end();
  void forget_sent();

  std::unique_ptr<Device> device_;
  const MirrorLimits limits_;
  std::vector<u32> words_;   // appended words; the device was given the first sent_
  std::vector<Mark> marks_;  // ascending; the device was given the words up to the marks before next_mark_
  u64 ready_ = 0;            // the number of words_ that were submitted
  u64 sent_ = 0;
  std::size_t next_mark_ = 0;
  u64 taken_ = 0;       // blocks that all logs took since the start
  u64 sent_taken_ = 0;  // of these, blocks before the last mark that a log ended at
  std::vector<Expected> expected_;  // [max_logs], by slot
  u64 given_ = 0;  // logs given to the device; a log's number is its count, modulo 2^32
  u64 done_ = 0;   // logs whose completion came

  enum class Digest { kAbsent, kWaiting, kStarted };
  Digest digest_state_ = Digest::kAbsent;
  u64 digest_at_ = 0;  // of a waiting digest: it starts when sent_ reaches this
  u32 digest_number_ = 0;
  u64 host_digest_ = 0;
  std::optional<u64> digest_;

  std::chrono::steady_clock::time_point next_check_{};  // when check() is due
};

}  // namespace blockstep
