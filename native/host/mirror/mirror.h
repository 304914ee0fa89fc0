// Mirror: keeps a second instance of the state on a device, which applies the logs that the host
// has already applied.
//
// The host never waits for the device. append() keeps an applied log. submit(), once per step,
// gives the kept logs to the device, joined into as few logs as possible. At most `max_logs` logs
// are outstanding. Further logs wait here, join with later logs, and are sent when a completion
// arrives. A device that falls behind therefore gets longer logs instead of more logs. A device
// that never answers is given up when `max_waiting_words` words wait.
//
// The state is not read back. Every completion contains the rolling digest of the device's results,
// which must equal the host's rolling digest after the same command.
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
  u32 max_logs;              // outstanding logs; each has a ring slot and a completion
  u32 slot_words;            // words of the longest log
  u32 max_taken;             // blocks that one log may take: the device's room for ids
  u64 max_waiting_words;     // words kept here while the device is behind
};

/// 64 MiB, enough for some hundred steps with the largest logs. A mirror that is further behind
/// will not catch up.
constexpr u64 kMaxWaitingWords = u64{1} << 24;

/// The interval of Device::check() calls while no completion arrives.
constexpr std::chrono::milliseconds kCheckInterval{2};

/// The methods throw Error: kMirror if the states of device and host differ, or an error of the
/// device. After an error the mirror is unusable, and its owner stops calling it.
class Mirror {
 public:
  Mirror(std::unique_ptr<Device> device, const MirrorLimits& limits);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  /// Keeps a copy of a log that the host has applied. The arguments are whole commands, the number
  /// of blocks that they took (at most max_taken), and the host's rolling digest after them. Sends
  /// logs to the device only if the waiting words fill a slot. @throws Error, std::bad_alloc
  void append(const u32* log, u32 words, u32 taken, u64 rolling_digest);

  /// Sends the waiting logs to the device, up to max_logs. With a stream, they run after the work
  /// that is queued there now, and before work that is queued there later. @throws Error `holds`: a
  /// gather will follow directly, see join(). The logs of one submit() may wait for it. Any other
  /// call sends them.
  void submit(std::optional<u64> stream = {}, bool holds = false);
  /// Sends the waiting logs to the device. The last log is passed to `give` instead, if it has at
  /// most `room` words and only common commands. Returns whether `give` was called. @throws Error,
  /// and exceptions of `give`
  using Give = std::function<void(Job job, const u32* log, u32 words)>;
  bool join(u32 room, const Give& give);

  /// Hands the waiting logs to the caller, who gives them to the device next: appends them to
  /// `facts` and returns true. If they are longer than `limit` words, or a digest waits to be
  /// started, they are submitted as logs instead. The result is then whether the device has all of
  /// them. @throws Error, std::bad_alloc
  bool hand_over(u64 limit, std::vector<u32>& facts);

  /// Takes the completions that have arrived, and sends waiting logs to the device. @throws Error
  void poll();

  /// Asks the device for the digest of its state after all appended logs. It must equal
  /// `host_digest`.
  /// @throws Error kLimit if a digest is already pending
  void start_digest(u64 host_digest);
  /// The last requested digest, once the device has confirmed it. Call poll() first.
  std::optional<u64> digest() const { return digest_; }

  /// Whether the device was given all submitted logs.
  bool all_given() const { return sent_ == ready_; }
  u32 outstanding() const { return static_cast<u32>(given_ - done_); }
  u64 waiting_words() const { return words_.size() - sent_; }
  u64 logs() const { return given_; }
  bool digest_pending() const { return digest_state_ != Digest::kAbsent; }
  /// Whether the device has applied all submitted logs, and no digest is pending.
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
  /// The expected completion of an outstanding log.
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
  std::vector<u32> words_;   // appended words; the first sent_ words were sent
  std::vector<Mark> marks_;  // ascending; the words up to the marks before next_mark_ were sent
  u64 ready_ = 0;            // number of submitted words in words_
  u64 sent_ = 0;
  std::size_t next_mark_ = 0;
  u64 taken_ = 0;       // blocks that all logs took since the start
  u64 sent_taken_ = 0;  // of these, blocks before the last mark at which a log ended
  std::vector<Expected> expected_;  // [max_logs], by slot
  u64 given_ = 0;  // number of logs given to the device; a log's number is this count, modulo 2^32
  u64 done_ = 0;   // number of logs whose completion has arrived

  enum class Digest { kAbsent, kWaiting, kStarted };
  Digest digest_state_ = Digest::kAbsent;
  u64 digest_at_ = 0;  // a waiting digest starts when sent_ reaches this number
  u32 digest_number_ = 0;
  u64 host_digest_ = 0;
  std::optional<u64> digest_;

  std::chrono::steady_clock::time_point next_check_{};  // when check() is due
};

}  // namespace blockstep
