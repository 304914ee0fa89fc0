// Decisions: the steps of a core whose device decides (authority 'device'). The work is divided as
// follows:
//
// - The device decides every block id. It decides which blocks the running requests take and which
//   blocks are published. For each waiting request, it decides which blocks it finds in the prefix
//   cache, how many of its tokens are computed, and whether it fits. run() and admit() are refused.
// - The host keeps the request table. It applies pins, resets and the pending operations of
//   TypeScript (releases, publications, evictions) at once, because these allocate no blocks. They
//   go to the device as the facts of the next batch.
// - The host's state follows. The decision includes the log that the device wrote. The host checks
//   this log against its state and applies it. The ids, counts, rolling digest and rows must then
//   match the decision. The host can therefore answer queries as the device would. One of the
//   queries is match(), for a connector that is asked between the lookup and the admission. Such an
//   admission names the hits of match(), and the device confirms them.
//
// Between submit() and the poll() that returns the decision, operations that change the state are
// refused, and queries see the state before the decision. Requests can be added.
#pragma once

#include <vector>

#include "../../base/span.h"
#include "../step/running.h"
#include "decided.h"
#include "decider.h"

namespace blockstep {

/// decided.h describes the words of requests and answers.
class Decisions {
 public:
  /// The device of the mirror must have been opened to decide.
  Decisions(const HostConfig& config, const Exchange& exchange, Condition& condition, FactLog& facts, Slots& slots,
            Running& running, Mirror& mirror);
  Decisions(const Decisions&) = delete;
  Decisions& operator=(const Decisions&) = delete;

  const Decider& decider() const { return decider_; }

  /// Checks the head of a request. It needs no state, so it runs before the pending area is
  /// drained. @throws Error kBadArg
  void check_request(Span<const std::int32_t> request) const;
  /// Asks the device to decide the entries [from, to) of a frame and the admissions of a request.
  /// The frame must have passed check_frame(), and the head of the request check_request(). @throws
  /// Error kBadSlot, kNoRow, kBadArg, std::bad_alloc: nothing is changed; kMirror, kCuda
  void submit(u32 frame, u32 from, u32 to, Span<const std::int32_t> request);
  /// Returns false if the decision has not arrived yet. Otherwise the state has followed it,
  /// `answer` is written, and the result is true. `answer` needs kAnswerHead + kAnswerAdmission *
  /// admissions words. @throws Error kBadArg if no decision is pending or the answer is too short;
  /// kMirror, kCuda
  bool poll(Span<std::int32_t> answer);

 private:
  /// An admission of the request.
  struct Asked {
    u32 slot;
    Admission admission;
  };
  /// The rest of the pending request, besides the work of running_ and admissions_.
  struct Asking {
    u32 frame;
    u32 from;
    u32 to;
    u32 padding;
    bool whole;  // the batch contains all entries and admissions
  };

  // In decisions.cc, which writes the batch:
  void read_admissions(const Frame& frame, u32 from, u32 to, Span<const std::int32_t> request);
  bool write_running();
  bool write_admissions();
  void forget_admissions();

  // In followed.cc, which follows the decision:
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
  std::vector<Asked> admissions_;  // each has a marked slot
  Asking asked_{};
};

}  // namespace blockstep
