// The steps of a core whose device decides (authority 'device'). Who does what:
//
// - The device decides every block id: which blocks the running requests take, what each waiting request finds in the
//   prefix cache, how much of it is computed, whether it fits, and what is published. run() and admit() are refused.
// - The host keeps the request table and says what is known: releases, publications and evictions that TypeScript
//   left, pins, resets. They give nobody a block, so the host applies them at once, and they go to the device as facts
//   in front of the next batch.
// - The host's state follows. The decision comes with the log that the device wrote; the log is checked against the
//   state, applied, and must lead to the same ids, counts and rolling digest, and to rows as the answers say. So queries
//   are answered here, and are the device's answers. One of them is match(), for who has to ask somebody between a
//   lookup and an admission; such an admission names the hits that were found, and the device confirms them.
//
// Between submit() and the poll() that brings the decision, whatever would change the state is refused, and queries see
// the state before it. Requests can be added.
#pragma once

#include <vector>

#include "../../base/span.h"
#include "../step/running.h"
#include "decided.h"
#include "decider.h"

namespace blockstep {

/// The words of requests and answers stand in decided.h.
class Decisions {
 public:
  /// The mirror's device was opened to decide.
  Decisions(const HostConfig& config, const Exchange& exchange, Condition& condition, FactLog& facts, Slots& slots,
            Running& running, Mirror& mirror);
  Decisions(const Decisions&) = delete;
  Decisions& operator=(const Decisions&) = delete;

  const Decider& decider() const { return decider_; }

  /// Refuses a request whose head makes no sense, before anything is drained. @throws Error kBadArg
  void check_request(Span<const std::int32_t> request) const;
  /// Asks for the entries [from, to) of a frame and the admissions of a request. Both were checked, the admissions as
  /// far as their head says. @throws Error kBadSlot, kNoRow, kBadArg, std::bad_alloc: nothing is changed; kMirror, kCuda
  void submit(u32 frame, u32 from, u32 to, Span<const std::int32_t> request);
  /// False: the decision has not come yet. True: it has, the state follows it, and the answer is written.
  /// @throws Error kBadArg if none is under way or the answer has no room; kMirror, kCuda
  bool poll(Span<std::int32_t> answer);

 private:
  /// An admission that the device is asked for.
  struct Asked {
    u32 slot;
    Admission admission;
  };
  /// What the decision under way was asked for, besides the work of running_ and the admissions.
  struct Asking {
    u32 frame;
    u32 from;
    u32 to;
    bool whole;  // the batch has all of it
  };

  // decisions.cc: asking.
  void read_admissions(const Frame& frame, u32 from, u32 to, Span<const std::int32_t> request);
  bool write_running();
  bool write_admissions();
  void forget_admissions();

  // followed.cc: what came back.
  void follow(const Decision& decision);
  void check_row(u32 row, u32 num_blocks);
  u64 take_running(const DecisionHeader& header);
  u32 entries_done(const DecisionHeader& header);
  AnswerAdmission take_answer(const Asked& asked, const AdmissionAnswer& answer, bool admitted);

  const HostConfig& config_;
  const Exchange& exchange_;
  Condition& condition_;
  FactLog& facts_;
  State& state_;
  Slots& slots_;
  RequestTable& table_;
  Running& running_;
  Decider decider_;
  BatchWriter batch_;
  std::vector<Asked> admissions_;  // the slot of each is marked
  Asking asked_{};
};

}  // namespace blockstep
