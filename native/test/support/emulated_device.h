// A device of threads, for tests of the code around a device. It applies logs to its own state and
// decides batches. On demand it is late, never answers, or answers wrongly. It shares data with the
// host like a GPU: a slot is read when its turn comes, and a completion is the last write.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "../../core/decide/decide.h"
#include "../../host/device/decision_room.h"
#include "../../host/device/device.h"
#include "../../base/error.h"
#include "emulated_tables.h"
#include "support.h"
#include "thread_team.h"

namespace blockstep::test {

/// Faults by the number of the log; 0: never.
struct Accidents {
  u32 launch_fails = 0;   // the call that gives it to the device
  u32 lost = 0;           // never answers, and every later call fails
  u32 wrong_digest = 0;   // reports another rolling digest
  u32 wrong_number = 0;   // the completion has another number
  u32 damaged = 0;        // the log differs from the given log
  u32 gather_fails = 0;   // the call of a gather
  u32 state_damaged = 0;  // afterwards a bit of the state differs that no result has shown yet

  // The same for batches:
  u32 decide_fails = 0;
  u32 decide_lost = 0;
  u32 decide_wrong_number = 0;
  u32 tampered = 0;  // its decision goes through `tamper`, its completion is unchanged
  std::function<void(u32* decision)> tamper = {};
};

class EmulatedDevice final : public Device {
 public:
  /// A stream that must not be ordered with any work.
  static constexpr u64 kCapturing = 900;

  /// `members`: size of the team that applies logs; 0: SoloTeam.
  EmulatedDevice(const Config& config, u32 max_logs, u32 slot_words, u32 members, const Accidents& accidents = {})
      : machine(config), max_logs_(max_logs), slot_words_(slot_words), members_(members), accidents_(accidents),
        room_(decision_room(config)), slots_(u64{max_logs} * slot_words), batch_(room_.batch_words),
        decision_(room_.decision_words), log_(room_.max_log), completions_(max_logs + 2), worker_([this] { work(); }) {}

  ~EmulatedDevice() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  u32* slot(u32 index) override { return slots_.data() + u64{index} * slot_words_; }
  const Completion& completion(u32 slot) const override { return completions_[slot]; }
  const Completion& digest_completion() const override { return completions_[max_logs_]; }

  void apply_value(Job job, Carrier carrier, const u32* log, u32 words) override {
    EXPECT(carrier == Carrier::kSmall ? words <= kSmallWords : carrier == Carrier::kLarge && words <= kLargeWords,
           "%u words as a parameter of size %u", words, static_cast<u32>(carrier));
    carried[static_cast<u32>(carrier)] += 1;
    calls += 'a';
    give({job, Kind::kValue, words, std::vector<u32>(log, log + words)});
  }
  void apply_slot(Job job, u32 words) override {
    EXPECT(words <= slot_words_, "%u words in a slot of %u", words, slot_words_);
    carried[static_cast<u32>(Carrier::kSlot)] += 1;
    calls += 'a';
    give({job, Kind::kSlot, words, {}});
  }
  void start_digest(u32 number) override { give({{number, max_logs_}, Kind::kDigest, 0, {}}); }
  u32* batch() override { return batch_.data(); }
  const u32* decision() const override { return decision_.data(); }
  const Completion& decision_completion() const override { return completions_[max_logs_ + 1]; }
  void decide_value(u32 number, Carrier carrier, const u32* batch, u32 words) override {
    EXPECT(words <= (carrier == Carrier::kSmall ? kSmallWords : kLargeWords), "%u words as a parameter", words);
    decided[static_cast<u32>(carrier)] += 1;
    give({{number, max_logs_ + 1}, Kind::kDecideValue, words, std::vector<u32>(batch, batch + words)});
  }
  void decide_slot(u32 number, u32 words) override {
    EXPECT(words <= room_.batch_words, "%u words in a batch of %u", words, room_.batch_words);
    decided[static_cast<u32>(Carrier::kSlot)] += 1;
    give({{number, max_logs_ + 1}, Kind::kDecideSlot, words, {}});
  }
  DeviceTables& make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) override {
    tables = std::make_unique<EmulatedTables>(
        machine.state, shape, block_size, num_slots,
        [this](std::function<void()> gather, bool joined) {
          gathers_ += 1;
          if (!joined) calls += 'g';
          if (gathers_ == accidents_.gather_fails) throw Error{kCuda, "the emulated launch failed"};
          give({{0, 0}, Kind::kGather, 0, {}, std::move(gather)});
        },
        [this] { settle(); });
    return *tables;
  }
  bool joins() const override { return can_join; }
  void apply_and_gather(Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) override {
    EXPECT(joint_message_at(log_words) + count <= kLargeJointWords, "%u and %u words in one parameter", log_words, count);
    EXPECT(is_common(log, log_words), "a log of rare commands with a gather");
    calls += 'j';
    give({job, Kind::kValue, log_words, std::vector<u32>(log, log + log_words)});
    tables->gather_behind(head, words, count);
  }
  bool is_capturing(u64 stream) override { return stream == kCapturing; }
  void follow(u64 stream) override {
    calls += 'f';
    followed.push_back(stream);
  }
  void lead(u64 stream) override {
    calls += 'l';
    led.push_back(stream);
  }
  void check() override {
    const std::lock_guard lock(mutex_);
    checks += 1;
    if (is_lost_) throw Error{kCuda, "the emulated device is lost"};
  }
  u64 device_bytes() const override { return state_bytes(machine.state.config); }
  u64 pinned_bytes() const override { return slots_.size() * 4; }

  /// Allows `count` more pieces of work. The device then waits for the next call.
  void allow(u64 count) {
    {
      const std::lock_guard lock(mutex_);
      allowed_ = count;
    }
    changed_.notify_all();
  }

  Machine machine;  // read it only while no work is pending
  u32 carried[3] = {};  // logs, by Carrier
  u32 decided[3] = {};  // batches
  u32 checks = 0;
  u32 most_outstanding = 0;
  std::vector<u64> followed, led;
  std::string calls;  // of the host, in order: a log applied, a gather, follow, lead
  bool can_join = false;
  std::unique_ptr<EmulatedTables> tables;

 private:
  enum class Kind { kValue, kSlot, kDigest, kGather, kDecideValue, kDecideSlot };
  struct Work {
    Job job;
    Kind kind;
    u32 words;
    std::vector<u32> log;  // log or batch
    std::function<void()> gather = {};
    bool is_log() const { return kind == Kind::kValue || kind == Kind::kSlot; }
    bool is_batch() const { return kind == Kind::kDecideValue || kind == Kind::kDecideSlot; }
  };

  /// Waits until no work is queued or running.
  void settle() {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [&] { return is_lost_ || (queue_.empty() && !busy_); });
    if (is_lost_) throw Error{kCuda, "the emulated device is lost"};
  }

  void give(Work work) {
    const std::lock_guard lock(mutex_);
    if (is_lost_) throw Error{kCuda, "the emulated device is lost"};
    if (work.is_batch() && work.job.number == accidents_.decide_fails) throw Error{kCuda, "the emulated launch failed"};
    if (work.is_log()) {
      if (work.job.number == accidents_.launch_fails) throw Error{kCuda, "the emulated launch failed"};
      outstanding_ += 1;
      most_outstanding = std::max(most_outstanding, outstanding_);
      EXPECT(outstanding_ <= max_logs_, "%u logs outstanding", outstanding_);
      EXPECT(work.job.slot == (work.job.number - 1) % max_logs_, "log %u in slot %u", work.job.number, work.job.slot);
    }
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }

  void work() {
    for (;;) {
      Work next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || (!is_lost_ && !queue_.empty() && allowed_ != 0); });
        if (stop_) return;
        next = std::move(queue_.front());
        queue_.pop_front();
        allowed_ -= 1;
        const u32 lost = next.is_log() ? accidents_.lost : next.is_batch() ? accidents_.decide_lost : 0;
        if (lost != 0 && next.job.number == lost) {
          is_lost_ = true;
          settled_.notify_all();
          continue;
        }
        busy_ = true;
      }
      switch (next.kind) {
        case Kind::kDigest: digest(next.job); break;
        case Kind::kGather: next.gather(); break;
        case Kind::kDecideValue:
        case Kind::kDecideSlot: decide(next); break;
        default: apply(next);
      }
      const std::lock_guard lock(mutex_);
      busy_ = false;
      if (queue_.empty()) settled_.notify_all();
    }
  }

  void apply(Work& work) {
    const u32 number = work.job.number;
    Log log{std::move(work.log)};
    if (work.kind == Kind::kSlot) log.words.assign(slot(work.job.slot), slot(work.job.slot) + work.words);
    if (number == accidents_.damaged) log.words[0] = 0xff;
    machine.results = {};
    machine.ids.assign(machine.state.config.num_blocks, kNone);
    machine.results = {machine.ids.data(), machine.state.config.num_blocks, 0, 0, 0};
    as_team([&](auto& team) {
      blockstep::apply(team, machine.state, log.words.data(), log.size(), machine.results);
    });
    if (number == accidents_.state_damaged) machine.state.blocks[1].generation ^= 1u << 31;
    const u64 rolling = machine.state.rolling_digest + (number == accidents_.wrong_digest);
    {
      const std::lock_guard lock(mutex_);
      outstanding_ -= 1;  // the host may give the next one as soon as it sees the word
    }
    complete(work.job.slot, number + (number == accidents_.wrong_number), machine.results.fault, rolling);
  }

  void decide(Work& work) {
    const u32 number = work.job.number;
    if (work.kind == Kind::kDecideSlot) work.log.assign(batch_.begin(), batch_.begin() + work.words);
    machine.ids.assign(machine.state.config.num_blocks, kNone);
    const Workspace workspace{machine.ids.data(), machine.state.config.num_blocks, log_.data(), room_.max_log};
    as_team([&](auto& team) {
      blockstep::decide(team, machine.state, work.log.data(), work.words, workspace, decision_.data());
    });
    const bool tampers = accidents_.tampered != 0 && number == accidents_.tampered;
    if (tampers) accidents_.tamper(decision_.data());
    const u32 shift = accidents_.decide_wrong_number != 0 && number == accidents_.decide_wrong_number;
    complete(work.job.slot, number + shift, machine.state.fault, machine.state.rolling_digest);
  }

  template <class All>
  void as_team(const All& all) {
    if (members_ == 0) {
      SoloTeam solo;
      all(solo);
    } else {
      test::launch(members_, [&](ThreadTeam& team) { all(team); });
    }
  }

  /// Like on the GPU: in parts that only know the number of earlier live places.
  void digest(Job job) {
    constexpr u32 kParts = 7;
    SoloTeam solo;
    const State& state = machine.state;
    u64 sum = 0;
    u64 live_before = 0;
    for (u32 part = 0; part < kParts; ++part) {
      sum += digest_part(solo, state, part, kParts, live_before);
      live_before += count_live(solo, state, queue_part(state, part, kParts), queue_part(state, part + 1, kParts));
    }
    complete(job.slot, job.number, 0, sum);
  }

  void complete(u32 slot, u32 number, u32 fault, u64 digest) {
    for (u32 which : {1u, 0u}) completions_[slot].half[which].store(half_word(number, digest, which), std::memory_order_relaxed);
    completions_[slot].word.store(completion_word(number, fault), std::memory_order_release);
  }

  const u32 max_logs_;
  const u32 slot_words_;
  const u32 members_;
  const Accidents accidents_;
  const DecisionRoom room_;
  std::vector<u32> slots_;
  std::vector<u32> batch_, decision_, log_;  // log_ is scratch of decide()
  std::vector<Completion> completions_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable settled_;
  std::deque<Work> queue_;
  u64 allowed_ = ~u64{0};
  u32 outstanding_ = 0;
  u32 gathers_ = 0;
  bool busy_ = false;
  bool is_lost_ = false;
  bool stop_ = false;
  std::thread worker_;  // last, because it uses all other members
};

}  // namespace blockstep::test
