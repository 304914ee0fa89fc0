// The completion ring against a model that remembers every word, and with threads that complete
// jobs at random times.
#include <map>
#include <thread>

#include "../../transfer/completion_ring.h"
#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

namespace {

constexpr u32 kMaxDrain = 64;

/// The model's data of a job.
struct Job {
  bool posted = false;
  Verdict verdict{};
  bool abandoned = false;
};

Verdict any_verdict(Random& random) { return static_cast<Verdict>(1 + random.below(3)); }

/// Jobs begin, end in any order, and are posted twice, late, or by device stores. Drains are cut,
/// and resets come between.
void test_model(u32 rounds) {
  Random random(1);
  u64 completions = 0;
  u64 refused = 0;
  for (u32 round = 0; round < rounds; ++round) {
    const u32 capacity = 1 + random.below(9);
    CompletionRing ring(capacity);
    std::map<u32, Job> held;
    std::vector<u32> over;
    u64 late = 0;
    u32 begun = 0;
    for (u32 step = 0; step < 200; ++step) {
      const u32 what = random.below(10);
      if (what < 4) {
        const u32 job = ring.begin(random.one_in(2));
        EXPECT((job == 0) == (held.size() == capacity), "job %u with %zu of %u held", job, held.size(), capacity);
        if (job == 0) {
          ++refused;
          continue;
        }
        ++begun;
        if (begun <= capacity) EXPECT(job == begun, "job %u as number %u", job, begun);
        EXPECT(held.count(job) == 0, "job %u is in flight already", job);
        for (const u32 before : over) EXPECT(before != job, "job %u came back", job);
        held[job] = {};
      } else if (what < 7 && !held.empty()) {
        auto at = held.begin();
        std::advance(at, random.below(held.size()));
        auto& [job, state] = *at;
        const Verdict verdict = any_verdict(random);
        const bool taken = ring.post(job, verdict);
        EXPECT(taken != state.posted, "job %u posted %d", job, state.posted);
        if (!taken) ++late;
        if (taken) state = {true, verdict, state.abandoned};
      } else if (what == 7 && !over.empty()) {
        // A late word of an ended job: refused, or found as a store in a slot of another job.
        const u32 job = over[random.below(over.size())];
        if (random.one_in(2)) {
          EXPECT(!ring.post(job, any_verdict(random)), "job %u was over", job);
          ++late;
        } else {
          bool awaited = false;
          bool idle = true;
          for (auto& [other, state] : held) {
            if (ring.slot_of(other) != ring.slot_of(job)) continue;
            idle = false;
            awaited = !state.posted;
          }
          // Only a faulty device could overwrite a completion that was not read.
          const u64 word = CompletionRing::word_of(job, any_verdict(random));
          if (awaited || idle) {
            if (idle && ring.address_of(job)->load() != 0) continue;
            ring.address_of(job)->store(word);
            ++late;
          }
          if (awaited) {
            std::int32_t out[2 * kMaxDrain];
            const auto found = ring.drain(out, kMaxDrain);
            EXPECT(found.late == 1, "%u late words found", found.late);
            // That drain took the posted completions.
            u32 pairs = 0;
            u32 dropped = 0;
            for (auto it = held.begin(); it != held.end();) {
              if (!it->second.posted) { ++it; continue; }
              ++(it->second.abandoned ? dropped : pairs);
              over.push_back(it->first);
              it = held.erase(it);
            }
            EXPECT(found.pairs == pairs && found.after_reset == dropped, "%u and %u", found.pairs, found.after_reset);
          }
        }
      } else if (what == 8 && random.one_in(6)) {
        u32 count = 0;
        for (auto& [job, state] : held) {
          count += !state.abandoned;
          state.abandoned = true;
        }
        const u32 dropped = ring.reset();
        EXPECT(dropped == count, "%u of %u jobs reset", dropped, count);
      } else {
        std::int32_t out[2 * kMaxDrain];
        const u32 most = random.one_in(3) ? 1 + random.below(3) : kMaxDrain;
        const auto found = ring.drain(out, most);
        EXPECT(found.pairs <= most && found.late == 0, "%u pairs, %u late", found.pairs, found.late);
        for (u32 i = 0; i < found.pairs; ++i) {
          const auto job = static_cast<u32>(out[2 * i]);
          const auto at = held.find(job);
          EXPECT(at != held.end() && at->second.posted && !at->second.abandoned, "job %u was drained", job);
          EXPECT(static_cast<u32>(at->second.verdict) == static_cast<u32>(out[2 * i + 1]), "job %u", job);
          over.push_back(job);
          held.erase(at);
          ++completions;
        }
        u32 dropped = 0;
        u32 left = 0;
        for (auto it = held.begin(); it != held.end();) {
          const bool gone = it->second.posted && it->second.abandoned && found.pairs < most;
          left += it->second.posted && !it->second.abandoned;
          dropped += gone;
          if (gone) over.push_back(it->first);
          it = gone ? held.erase(it) : std::next(it);
        }
        if (found.pairs < most) {
          EXPECT(left == 0 && dropped == found.after_reset, "%u left, %u of %u dropped", left, found.after_reset, dropped);
        } else if (found.after_reset > 0) {
          break;  // the model does not know which ones were dropped
        }
      }
      u32 in_flight = 0;
      for (auto& [job, state] : held) in_flight += !state.abandoned;
      EXPECT(ring.in_flight() == in_flight && ring.abandoned() == held.size() - in_flight, "%u in flight, %u abandoned",
             ring.in_flight(), ring.abandoned());
    }
    if (held.size() == ring.in_flight() + ring.abandoned()) {
      const u64 counted = ring.late();
      EXPECT(counted == late, "round %u: %llu late words counted, %llu made", round, wide(counted), wide(late));
    }
  }
  EXPECT(completions > rounds && refused > rounds, "%llu completions, %llu refused", wide(completions), wide(refused));
}

/// The numbers restart after the last lap, and never repeat the number of a job in flight, however
/// slow it is.
void test_wrap() {
  constexpr u32 kCapacity = 3;
  constexpr u32 kLaps = 4;
  CompletionRing ring(kCapacity, nullptr, kCapacity * kLaps + 2);
  std::int32_t out[2 * kCapacity];
  const u32 slow = ring.begin(false);
  std::vector<u32> seen(kCapacity * kLaps + 1);
  for (u32 i = 0; i < 50; ++i) {
    const u32 job = ring.begin(false);
    EXPECT(job > 0 && job <= kCapacity * kLaps && job != slow, "job %u", job);
    ++seen[job];
    EXPECT(ring.post(job, Verdict::kCancelled), "job %u", job);
    EXPECT(ring.drain(out, kCapacity).pairs == 1 && static_cast<u32>(out[0]) == job, "job %u", job);
    EXPECT(!ring.post(job, Verdict::kOk), "job %u is over", job);
  }
  // Two slots, whose numbers alternate.
  for (u32 job = 2; job <= kCapacity * kLaps; ++job) {
    const bool of_slow = ring.slot_of(job) == ring.slot_of(slow);
    EXPECT(of_slow ? seen[job] == 0 : seen[job] >= 50 / (2 * kLaps), "job %u was begun %u times", job, seen[job]);
  }
  EXPECT(ring.post(slow, Verdict::kOk) && ring.drain(out, kCapacity).pairs == 1, "the slow one");
}

void test_foreign() {
  CompletionRing ring(2);
  using Posted = CompletionRing::Posted;
  EXPECT(ring.post_foreign(1, Verdict::kOk) == Posted::kUnknown, "nothing was begun");
  EXPECT(ring.post_foreign(0, Verdict::kOk) == Posted::kUnknown, "0 is no job");
  EXPECT(ring.post_foreign(0xffffffff, Verdict::kOk) == Posted::kUnknown, "no job has that number");
  const u32 ours = ring.begin(true);
  const u32 theirs = ring.begin(false);
  EXPECT(ring.post_foreign(ours, Verdict::kOk) == Posted::kOwned, "a lane's job");
  EXPECT(ring.post_foreign(theirs, Verdict::kFailed) == Posted::kTaken, "theirs");
  EXPECT(ring.post_foreign(theirs, Verdict::kOk) == Posted::kLate, "twice");
  std::int32_t out[4];
  const auto found = ring.drain(out, 2);
  EXPECT(found.pairs == 1 && out[0] == static_cast<std::int32_t>(theirs) && out[1] == 2, "pair %d %d", out[0], out[1]);
  EXPECT(ring.post_foreign(theirs, Verdict::kOk) == Posted::kLate, "when it was drained");
  const u32 next = ring.begin(false);
  EXPECT(ring.slot_of(next) == ring.slot_of(theirs) && next != theirs, "the slot's next job");
  EXPECT(ring.post_foreign(theirs, Verdict::kOk) == Posted::kLate, "when its slot is another's");
  EXPECT(ring.drain(out, 2).pairs == 0, "nothing of that is a completion");
  EXPECT(ring.late() == 3, "%llu late", wide(ring.late()));
  // An invalid verdict counts as a failed transfer.
  ring.address_of(next)->store(u64{next} << 32 | 77);
  EXPECT(ring.drain(out, 2).pairs == 1 && out[1] == static_cast<std::int32_t>(Verdict::kFailed), "verdict %d", out[1]);
}

/// Threads complete the owner's jobs, some of them twice, one of them very late. Every job is
/// drained once.
void test_threads(u32 jobs) {
  constexpr u32 kCompleters = 3;
  constexpr u32 kRoom = 24;
  CompletionRing ring(kRoom);
  std::atomic<u32> mail[kRoom] = {};  // jobs to complete, by slot
  std::atomic<bool> done{false};
  std::atomic<u64> refused{0};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kCompleters; ++t) {
    threads.emplace_back([&, t] {
      Random random(100 + t);
      u32 last = 0;
      while (!done.load()) {
        const u32 job = mail[random.below(kRoom)].exchange(0);
        if (job != 0 && !ring.post(job, any_verdict(random))) EXPECT(false, "job %u was over", job);
        if (job != 0 && last != 0 && last != job && random.one_in(4)) refused += !ring.post(last, Verdict::kFailed);
        if (job != 0) last = job;
      }
    });
  }
  std::vector<u32> times(u64{jobs} * 2 + kRoom * 4);
  u32 begun = 0;
  u32 drained = 0;
  u32 late = 0;
  while (drained < jobs) {
    const u32 job = begun < jobs ? ring.begin(false) : 0;
    if (job != 0) {
      ++begun;
      mail[ring.slot_of(job)].store(job);
    }
    std::int32_t out[2 * kRoom];
    const auto found = ring.drain(out, kRoom);
    late += found.late;
    for (u32 i = 0; i < found.pairs; ++i) {
      const auto number = static_cast<u32>(out[2 * i]);
      if (number < times.size()) EXPECT(++times[number] == 1, "job %u came twice", number);
      EXPECT(out[2 * i + 1] >= 1 && out[2 * i + 1] <= 3, "verdict %d", out[2 * i + 1]);
    }
    drained += found.pairs;
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT(begun == jobs && drained == jobs && ring.in_flight() == 0, "%u begun, %u drained", begun, drained);
  EXPECT(late == 0, "%u late words: what is posted late changes nothing", late);
  EXPECT(ring.late() == refused && refused > 0, "%llu late of %llu", wide(ring.late()), wide(refused.load()));
}

}  // namespace

int main(int argc, char** argv) {
  const auto rounds = static_cast<u32>(argument(argc, argv, 1, 300));
  test_model(rounds);
  test_wrap();
  test_foreign();
  test_threads(rounds * 20);
  std::printf("%u rounds", rounds);
}
