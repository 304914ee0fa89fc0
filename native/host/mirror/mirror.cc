#include "mirror.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "../../core/base/command.h"
#include "../../core/blocks/apply.h"

namespace blockstep {
namespace {

std::string hex(u64 value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

}  // namespace

Mirror::Mirror(std::unique_ptr<Device> device, const MirrorLimits& limits)
    : device_(std::move(device)), limits_(limits), expected_(limits.max_logs) {}

void Mirror::append(const u32* log, u32 words, u32 taken, u64 rolling_digest) {
  if (words == 0) return;
  if (waiting_words() + words > limits_.max_waiting_words) {
    throw Error{kMirror, "the device is behind by " + std::to_string(waiting_words()) + " words of log, and " +
                             std::to_string(words) + " more are above the limit of " +
                             std::to_string(limits_.max_waiting_words)};
  }
  forget_sent();
  words_.insert(words_.end(), log, log + words);
  taken_ += taken;
  marks_.push_back({words_.size(), taken_, rolling_digest});
  if (waiting_words() >= limits_.slot_words) {
    ready_ = words_.size();
    collect();
    pump();
  }
}

void Mirror::submit(std::optional<u64> stream, bool holds) {
  const bool news = collect();
  const bool waited = sent_ != ready_;
  ready_ = words_.size();
  if (holds && !waited && !stream) return;
  if (stream) device_->follow(*stream);
  pump();
  if (stream) device_->lead(*stream);
  if (!news && sent_ != ready_) check_in_time();
}

bool Mirror::hand_over(u64 limit, std::vector<u32>& facts) {
  if (digest_state_ == Digest::kWaiting || waiting_words() > limit) {
    submit();
    return all_given();
  }
  facts.insert(facts.end(), words_.begin() + static_cast<std::ptrdiff_t>(sent_), words_.end());
  sent_ = ready_ = words_.size();
  next_mark_ = marks_.size();
  sent_taken_ = taken_;
  return true;
}

void Mirror::poll() {
  if (!collect() && !idle()) check_in_time();
  pump();
}

/// Asks the device whether it still works, unless it was asked or answered within the last
/// kCheckInterval. A query takes the driver's lock, and some GPU time.
void Mirror::check_in_time() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_check_) return;
  next_check_ = now + kCheckInterval;
  device_->check();
}

void Mirror::start_digest(u64 host_digest) {
  if (digest_state_ != Digest::kAbsent) throw Error{kLimit, "a digest is under way already: poll until it is there"};
  digest_.reset();
  digest_state_ = Digest::kWaiting;
  ready_ = digest_at_ = words_.size();
  host_digest_ = host_digest;
  collect();
  pump();
}

/// Takes the completions that have arrived. Returns whether there were any.
bool Mirror::collect() {
  bool any = false;
  while (collect_log()) any = true;
  if (collect_digest()) any = true;
  if (any) next_check_ = std::chrono::steady_clock::now() + kCheckInterval;
  return any;
}

/// Takes the completion of the oldest outstanding log, if it has arrived. The device works in
/// order, so no later completion can have arrived before it.
bool Mirror::collect_log() {
  if (given_ == done_) return false;
  const u32 slot = static_cast<u32>(done_ % limits_.max_logs);
  Expected& expected = expected_[slot];
  const Completion& completion = device_->completion(slot);
  const u64 word = completion.word.load(std::memory_order_acquire);
  if (word == expected.last_word) return false;
  // The text is built only for an error, because this code runs for every log.
  const auto log = [&] { return "log " + std::to_string(expected.number); };
  if (word >> 32 != expected.number) {
    throw Error{kMirror, "the completion of " + log() + " reads " + hex(word) + ", which belongs to another"};
  }
  if (const u32 fault = static_cast<u32>(word)) {
    throw Error{kMirror, "the device refused a command of " + log() + ": " + describe(fault)};
  }
  if (!has_digest(completion, expected.number)) return false;
  if (expected.has_digest && digest_of(completion) != expected.digest) {
    throw Error{kMirror, "the device's results differ after " + log() + ": rolling digest " + hex(digest_of(completion)) +
                             ", the host has " + hex(expected.digest)};
  }
  expected.last_word = word;
  done_ += 1;
  return true;
}

bool Mirror::collect_digest() {
  if (digest_state_ != Digest::kStarted) return false;
  const Completion& completion = device_->digest_completion();
  if (completion.word.load(std::memory_order_acquire) != completion_word(digest_number_, 0)) return false;
  if (!has_digest(completion, digest_number_)) return false;
  if (digest_of(completion) != host_digest_) {
    throw Error{kMirror, "the device's state differs: digest " + hex(digest_of(completion)) + ", the host has " +
                             hex(host_digest_)};
  }
  digest_ = host_digest_;
  digest_state_ = Digest::kAbsent;
  return true;
}

bool Mirror::join(u32 room, const Give& give) {
  collect();
  while (sent_ != ready_ && digest_state_ != Digest::kWaiting && outstanding() != limits_.max_logs) {
    const u64 end = next_end();
    const u32 words = static_cast<u32>(end - sent_);
    if (end == ready_ && words <= room && is_common(words_.data() + sent_, words)) {
      launch_by(end, give);
      return true;
    }
    launch(end);
  }
  pump();
  return false;
}

/// Gives the device the waiting logs and the waiting digest, while a ring slot is free.
void Mirror::pump() {
  for (;;) {
    const bool digest_waits = digest_state_ == Digest::kWaiting;
    if (digest_waits && digest_at_ == sent_) {
      device_->start_digest(++digest_number_);
      digest_state_ = Digest::kStarted;
      continue;
    }
    if (sent_ == ready_ || outstanding() == limits_.max_logs) return;
    launch(next_end());
  }
}

/// The end of the next log.
u64 Mirror::next_end() {
  const u64 end = digest_state_ == Digest::kWaiting ? digest_at_ : ready_;
  return cut(std::min(end, sent_ + limits_.slot_words));
}

/// The end of the next log. It is the last mark up to `limit` at which the log takes at most
/// max_taken blocks. The host's digest is known at a mark. If there is no such mark, it is the end
/// of the last whole command up to `limit`.
u64 Mirror::cut(u64 limit) {
  u64 end = sent_;
  const u64 taken = sent_taken_;
  for (; next_mark_ < marks_.size(); ++next_mark_) {
    const Mark& mark = marks_[next_mark_];
    if (mark.end > limit || mark.taken - taken > limits_.max_taken) break;
    end = mark.end;
    sent_taken_ = mark.taken;
  }
  if (end != sent_) return end;
  while (end < limit) {
    const u64 next = end + 1 + payload_words(words_[end]);
    if (next > limit) break;
    end = next;
  }
  if (end != sent_) return end;
  throw Error{kMirror, "a command of " + std::to_string(1 + payload_words(words_[end])) +
                           " words is longer than a log may be, " + std::to_string(limits_.slot_words)};
}

void Mirror::launch(u64 end) {
  launch_by(end, [&](Job job, const u32* log, u32 words) {
    const Carrier carrier = carrier_of(words);
    if (carrier == Carrier::kSlot) {
      std::copy_n(log, words, device_->slot(job.slot));
      device_->apply_slot(job, words);
    } else {
      device_->apply_value(job, carrier, log, words);
    }
  });
}

void Mirror::launch_by(u64 end, const Give& give) {
  const u32 slot = static_cast<u32>(given_ % limits_.max_logs);
  const Job job{static_cast<u32>(given_ + 1), slot};
  give(job, words_.data() + sent_, static_cast<u32>(end - sent_));
  Expected& expected = expected_[slot];
  expected.number = job.number;
  expected.has_digest = next_mark_ != 0 && marks_[next_mark_ - 1].end == end;
  if (expected.has_digest) expected.digest = marks_[next_mark_ - 1].digest;
  given_ += 1;
  sent_ = end;
}

/// Drops the sent words once they are at least half of words_. Moving the other words to the front
/// therefore costs amortised constant time.
void Mirror::forget_sent() {
  if (2 * sent_ < words_.size() || sent_ == 0) return;
  words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(sent_));
  marks_.erase(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(next_mark_));
  for (Mark& mark : marks_) mark.end -= sent_;
  digest_at_ -= std::min(digest_at_, sent_);
  ready_ -= sent_;
  next_mark_ = 0;
  sent_ = 0;
}

}  // namespace blockstep
