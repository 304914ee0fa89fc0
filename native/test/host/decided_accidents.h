// Wrong decisions and devices: each poisons the core with a code and a message with the reason.
#pragma once

#include "decided_bench.h"

namespace blockstep::test {

/// A wrong decision, or a failing device, poisons the core with this code and message.
static void test_accidents() {
  const auto header = [](u32* words) -> DecisionHeader& { return record_at<DecisionHeader>(words); };
  const auto answer = [](u32* words) -> AdmissionAnswer& {
    return record_at<AdmissionAnswer>(words + kWordsOf<DecisionHeader>);
  };
  const auto log = [=](u32* words) { return words + header(words).words - header(words).log_words; };
  const auto tamper = [](std::function<void(u32*)> change) { return Accidents{.tampered = 2, .tamper = change}; };
  struct Case {
    const char* what;
    Accidents accidents;
    const char* code;
    const char* says;
  };
  const char* senseless = "makes no sense";
  const Case cases[] = {
      {"nothing", {}, "", ""},
      {"a launch that fails", {.decide_fails = 2}, kCuda, "launch failed"},
      {"a device that is lost", {.decide_lost = 2}, kCuda, "lost"},
      {"another number", {.decide_wrong_number = 2}, kMirror, "completion of batch 2 is that of batch 3"},
      {"another version", tamper([=](u32* w) { header(w).version = 9; }), kMirror, senseless},
      {"a fault", tamper([=](u32* w) { header(w).fault = 1; }), kMirror, senseless},
      {"an unknown stop", tamper([=](u32* w) { header(w).stop = 77; }), kMirror, senseless},
      {"a stop for no reason", tamper([=](u32* w) { header(w).stop = kStopRows; }), kMirror, senseless},
      {"other words", tamper([=](u32* w) { header(w).words += 1; }), kMirror, senseless},
      {"more entries than there are", tamper([=](u32* w) {
         header(w).num_run = 2, header(w).stop = kStopRunning, header(w).num_answers = header(w).num_admitted = 0;
         header(w).words -= 12;
       }), kMirror, senseless},
      {"all entries with a stop", tamper([=](u32* w) {
         header(w).stop = kStopRunning, header(w).num_answers = header(w).num_admitted = 0;
         header(w).words -= 12;
       }), kMirror, senseless},
      {"fewer entries", tamper([=](u32* w) { header(w).num_run = 0; }), kMirror, senseless},
      {"more answers than admissions", tamper([=](u32* w) { header(w).num_answers = 3; }), kMirror, senseless},
      {"more answers, and as many words", tamper([=](u32* w) {
         header(w).num_answers = header(w).num_admitted = 3, header(w).stop = kStopRows, header(w).words += 6;
       }), kMirror, senseless},
      {"more admitted than answered", tamper([=](u32* w) { header(w).num_admitted = 3; }), kMirror, senseless},
      {"two that were not admitted", tamper([=](u32* w) { header(w).num_admitted = 0, header(w).stop = kStopRows; }),
       kMirror, senseless},
      {"all admitted with a stop", tamper([=](u32* w) { header(w).stop = kStopBudget; }), kMirror, senseless},
      {"fewer admitted", tamper([=](u32* w) { header(w).num_admitted = 1, header(w).stop = kStopRows; }), kMirror,
       "does not name"},
      {"more ids than blocks", tamper([=](u32* w) { header(w).num_ids += 60, header(w).words += 60; }), kMirror, senseless},
      {"a log without an end", tamper([=](u32* w) { header(w).log_words += 1u << 20, header(w).words += 1u << 20; }),
       kMirror, senseless},
      {"another log", tamper([=](u32* w) { log(w)[0] = head_word(Op::kRelease, 1), log(w)[1] = 9; }), kMirror,
       "does not apply"},
      {"another id", tamper([=](u32* w) { (log(w) - header(w).num_ids)[0] += 1; }), kMirror, "other blocks"},
      {"another count", tamper([=](u32* w) { header(w).num_free += 1; }), kMirror, "counts"},
      {"another number of keys", tamper([=](u32* w) { header(w).num_published += 1; }), kMirror, "counts"},
      {"another number of rows", tamper([=](u32* w) { header(w).rows_in_use += 1; }), kMirror, "counts"},
      {"another number of commands", tamper([=](u32* w) { header(w).num_commands[0] += 1; }), kMirror, "counts"},
      {"another digest", tamper([=](u32* w) { header(w).rolling_digest[1] ^= 1; }), kMirror, "rolling digests"},
      {"another row", tamper([=](u32* w) { answer(w).row += 1; }), kMirror, "cannot be admitted"},
      {"more tokens than there are", tamper([=](u32* w) { answer(w).num_tokens = 2; }), kMirror, "cannot be admitted"},
      {"more hits than tokens", tamper([=](u32* w) { answer(w).num_hits = 1u << 30; }), kMirror, "cannot be admitted"},
      {"more hits than full blocks", tamper([=](u32* w) { answer(w).num_hits = 3, answer(w).num_new = 0; }), kMirror,
       "cannot be admitted"},
      {"other new blocks", tamper([=](u32* w) { answer(w).num_new += 1; }), kMirror, "cannot be admitted"},
      {"blocks that are not there", tamper([=](u32* w) { answer(w).num_new += 1, answer(w).num_blocks += 1; }), kMirror,
       "does not hold the 4 blocks"},
      {"a block of another prefix", tamper([=](u32* w) { std::swap(log(w)[5], log(w)[6]); }), kMirror, "another prefix"},
      {"a longer row", tamper([=](u32* w) { log(w)[2] += 1; }), kMirror, "other blocks"},
  };
  for (const Case& test : cases) {
    Bench bench(test.accidents);
    // A request that continues with a new block, and a request that finds two of its blocks.
    const u32 first = bench.add(12);
    const Error error = error_of([&] {
      bench.submit(first);
      bench.wait();
      bench.enter(0, first, 12, 1);
      bench.push(PendingOp::kAppend, first, 7);
      const u32 second = bench.add(9);
      const u32 third = bench.add(5, 100);
      bench.submit(Bench::request({{static_cast<std::int32_t>(second), 0, 0, -1, 0},
                                   {static_cast<std::int32_t>(third), 0, 0, -1, 0}}), 1);
      bench.wait();
    });
    expect_error(error, test.code, test.says, test.what);
    if (test.code[0] == 0) {
      EXPECT(bench.answer[kNumRun] == 1 && bench.answer[kAnswerHead + 1] == 2, "%d hits", bench.answer[kAnswerHead + 1]);
      continue;
    }
    EXPECT(bench.exchange.control(kDeciding) == 0, "%s: who waits for it waits for ever", test.what);
    for (const auto& call : {std::function<void()>([&] { bench.core.flush(); }), std::function<void()>([&] { bench.poll(); }),
                             std::function<void()>([&] { bench.submit(first); })}) {
      expect_error(error_of(call), test.code, error.message.c_str(), test.what);
    }
  }
}

}  // namespace blockstep::test
