// The kernels themselves, on threads: kernels.cu is compiled as C++ over gpu_shim, with one thread
// for each thread of a block. Blocks of 64 threads suffice instead of 256, because two warps
// exchange the same data as eight. The thread sanitizer shows that the team of a thread block, its
// launches and its completions are correct. It shows this as far as it is visible without a GPU.
#if !defined(BLOCKSTEP_BLOCK_THREADS)
#define BLOCKSTEP_BLOCK_THREADS 64
#endif
#include "../../cuda/kernels/kernels.cu"

#include "../../host/device/self_test.h"
#include "../workload/workload.h"

using namespace blockstep;
using namespace blockstep::test;
namespace gpu_code = blockstep::cuda;
using gpu_code::CtaTeam;
using gpu_code::Home;

constexpr u32 kMaxLogs = 2;

/// The device's state, and the memory for a launch.
struct Gpu {
  explicit Gpu(const Config& config) : machine(config), ids(config.num_blocks, kNone), slots(kMaxLogs) {
    home.state = machine.state;
    home.ids = ids.data();
    home.completions = completions;
    home.digest = completions + kMaxLogs;
    for (auto& slot : slots) slot.resize(kSlotWords / 4);
    staging.resize(kSlotWords / 4);
    home.staging = &staging.data()->x;
  }

  /// Passes a log like the host does: by value or through a slot.
  void apply(u32 number, const Log& log, Carrier carrier) {
    const u32 slot = number % kMaxLogs;
    if (carrier == Carrier::kSlot) {
      u32* words = &slots[slot].data()->x;
      std::copy_n(log.words.data(), log.size(), words);
      gpu_shim::launch(1, gpu_code::kThreads, [&] { gpu_code::apply_slot(&home, number, slot, log.size(), words); });
    } else if (carrier == Carrier::kSmall) {
      const bool common = is_common(log.words.data(), log.size());
      common_logs += common;
      common ? apply_value<kSmallWords, false>(number, slot, log) : apply_value<kSmallWords, true>(number, slot, log);
    } else if (log.size() <= gpu_code::kMiddleWords) {
      apply_value<gpu_code::kMiddleWords, true>(number, slot, log);
    } else {
      apply_value<kLargeWords, true>(number, slot, log);
    }
  }

  template <u32 Words, bool kAll>
  void apply_value(u32 number, u32 slot, const Log& log) {
    const auto letter = std::make_unique<gpu_code::Letter<Words>>();
    letter->site = gpu_code::site_of(home.state, &home);
    letter->number = number;
    letter->slot = slot;
    letter->words = log.size();
    std::copy_n(log.words.data(), log.size(), letter->log);
    gpu_shim::launch(1, gpu_code::kThreads, [&] { gpu_code::apply_value<Words, kAll>(*letter); });
  }

  u64 digest(u32 number) {
    gpu_shim::launch(gpu_code::kParts, gpu_code::kThreads, [&] { gpu_code::count_parts(&home); });
    gpu_shim::launch(gpu_code::kParts, gpu_code::kThreads, [&] { gpu_code::digest_parts(&home, number); });
    EXPECT(home.digest->word.load() == completion_word(number, 0), "the digest's completion");
    EXPECT(has_digest(*home.digest, number), "a digest without its number");
    return digest_of(*home.digest);
  }

  Machine machine;
  std::vector<u32> ids;
  std::vector<std::vector<uint4>> slots;
  std::vector<uint4> staging;
  Completion completions[kMaxLogs + 1] = {};
  Home home{};
  u32 common_logs = 0;
};

/// The calls of a team, with numbers that reveal a wrong width or order. Many calls in a row reveal
/// a buffer that is reused too early.
static void test_team() {
  constexpr u32 kThreads = gpu_code::kThreads;
  CtaTeam::Shared shared;
  gpu_shim::launch(1, kThreads, [&] {
    CtaTeam team(shared);
    const u32 rank = team.rank();
    EXPECT(rank == threadIdx.x && team.size() == kThreads, "rank %u of %u", rank, team.size());
    for (u32 turn = 0; turn < 40; ++turn) {
      u32 total;
      const u32 step = turn % 7 + 1;
      const u32 before = team.count(rank % step == 0, total);
      EXPECT(before == (rank + step - 1) / step && total == (kThreads + step - 1) / step, "count: %u of %u", before, total);
      const u32 sum = team.scan(rank + turn, total);
      EXPECT(sum == rank * (rank - 1) / 2 + rank * turn, "scan: %u", sum);
      EXPECT(total == kThreads * (kThreads - 1) / 2 + kThreads * turn, "scan: %u in all", total);
      const u64 all = team.sum((u64{1} << 40) + rank);
      EXPECT(all == (u64{kThreads} << 40) + kThreads * (kThreads - 1) / 2, "sum: %llu", wide(all));
      if (turn % 3 == 0) team.sync();
    }
  });
  u32 word = 0;
  u32 most = 0;
  u32 bits = ~0u;
  gpu_shim::launch(1, kThreads, [&] {
    CtaTeam team(shared);
    team.fetch_add(&word, 3);
    team.fetch_sub(&word, 1);
    team.fetch_max(&most, team.rank());
    if (team.rank() < 16) team.fetch_and(&bits, ~(1u << team.rank()));
    team.sync();
    EXPECT(team.load(&word) == 2 * kThreads && team.load(&most) == kThreads - 1, "%u, %u", word, most);
    EXPECT(team.load(&bits) == 0xffff0000u, "%x", bits);
    team.sync();
    if (team.rank() == 7) team.store(&word, 9);
    if (team.rank() < 16) team.fetch_or(&bits, 1u << team.rank());
    team.sync();
    EXPECT(team.load(&word) == 9 && team.load(&bits) == ~0u, "%u, %x", word, bits);
    team.sync();
    if (team.exchange(&word, 1) == 9) team.store(&most, 0);
    team.sync();
    EXPECT(team.load(&word) == 1 && team.load(&most) == 0, "%u, %u", word, most);
  });
}

/// Random logs by every carrier, against the model, the host and each other.
static u64 run(const Shape& shape, u64 seed, u64 logs) {
  Gpu gpu(config_of(shape));
  Machine host(config_of(shape));
  Workload workload(shape, seed);
  for (u32 number = 1; number <= logs; ++number) {
    Log log;
    std::vector<u32> taken;
    while (taken.size() < 4 && log.size() < 60) workload.step(log, taken);
    host.apply(log);
    gpu.apply(number, log, static_cast<Carrier>(number % 3));
    const Completion& completion = gpu.completions[number % kMaxLogs];
    EXPECT(completion.word.load() == completion_word(number, 0), "log %u: %llx", number, wide(completion.word.load()));
    EXPECT(has_digest(completion, number) && digest_of(completion) == host.state.rolling_digest, "log %u: another rolling digest", number);
    EXPECT(std::equal(taken.begin(), taken.end(), gpu.ids.begin()), "log %u: other blocks were taken", number);
    expect_equal(gpu.home.state, workload.model, number);
    EXPECT(digest(gpu.home.state) == digest(host.state), "log %u: another state", number);
  }
  const char* broken = verify(gpu.home.state);
  EXPECT(broken == nullptr, "%s", broken);
  EXPECT(gpu.common_logs != 0 && gpu.common_logs < logs / 3 + 1, "%u logs of common commands", gpu.common_logs);
  for (u32 number = 5; number < 7; ++number) EXPECT(gpu.digest(number) == digest(host.state), "another digest in parts");
  return workload.num_commands;
}

/// Each word of a completion contains the number of its log. In whatever order the host sees them,
/// it has the log's digest once all of them have the log's number. With a slot it also sees the
/// ids, and may overwrite the slot.
static void test_completion() {
  for (const Carrier carrier : {Carrier::kSmall, Carrier::kSlot}) {
    Gpu gpu({100, 4, 90, 0});
    Machine expected({100, 4, 90, 0});
    Log log;
    log.add(Op::kOpen, 0, {0});
    log.add(Op::kExtend, 1, {0, 90});
    expected.apply(log);
    std::thread host([&] {
      const Completion& completion = gpu.completions[1];
      while (completion.word.load(std::memory_order_acquire) == 0 || !has_digest(completion, 1)) std::this_thread::yield();
      EXPECT(completion.word.load() == completion_word(1, 0), "%llx", wide(completion.word.load()));
      EXPECT(digest_of(completion) == expected.state.rolling_digest, "another digest");
      if (carrier != Carrier::kSlot) return;
      for (u32 i = 0; i < 90; ++i) EXPECT(gpu.ids[i] == i + 1, "id %u is not there", i);
      gpu.slots[1][0] = {};
    });
    gpu.apply(1, log, carrier);
    host.join();
  }
}

/// A fault is in the completion, and nothing is applied after it.
static void test_fault() {
  Gpu gpu({40, 8, 16, 0});
  Log log;
  log.add(Op::kRelease, 1, {3});
  gpu.apply(1, log, Carrier::kSmall);
  EXPECT(gpu.completions[1].word.load() == completion_word(1, kRowNotInUse), "%llx", wide(gpu.completions[1].word));
  gpu.apply(2, log, Carrier::kLarge);
  EXPECT(gpu.completions[0].word.load() == completion_word(2, kRowNotInUse), "%llx", wide(gpu.completions[0].word));
}

/// The initial state, by a grid over zeroed memory: it equals the state of init_state().
static void test_initialise() {
  for (const u32 num_blocks : {2u, 31u, 32u, 33u, 700u}) {
    const Config config{num_blocks, 4, 8, 0};
    Machine host(config);
    Gpu gpu(config);
    State& state = gpu.home.state;
    std::fill_n(state.ring, state.ring_mask + 1, 0);
    std::fill_n(state.live, (state.ring_mask + 1) / 32, 0);
    std::fill_n(state.blocks, num_blocks, Block{});
    gpu_shim::launch(2, gpu_code::kThreads, [&] { gpu_code::initialise(&gpu.home); });
    EXPECT(digest(state) == digest(host.state) && verify(state) == nullptr, "%u blocks", num_blocks);
  }
}

/// A log of every length near a multiple of the read size comes through a slot unchanged.
static void test_fetch() {
  constexpr u32 kQuads = 6000;
  std::vector<uint4> source(kQuads);
  std::vector<uint4> target(kQuads);
  u32* words = &source.data()->x;
  for (u32 i = 0; i < 4 * kQuads; ++i) words[i] = i * 2654435761u;
  for (const u32 length : {1u, 4u, 5u, 1023u, 1025u, 8191u, 8192u, 8193u, 20000u}) {
    std::fill(target.begin(), target.end(), uint4{});
    gpu_shim::launch(1, gpu_code::kThreads, [&] {
      gpu_code::fetch(&target.data()->x, words, length);
      EXPECT((&target.data()->x)[length - 1] == words[length - 1], "not synchronised");
    });
    EXPECT(std::equal(words, words + length, &target.data()->x), "%u words", length);
    const u32 end = (length + 3) / 4;
    EXPECT(end == kQuads || target[end].x == 0, "%u words: written past the end", length);
  }
}

static void test_mailbox() {
  for (const bool silent : {false, true}) {
    Mailbox mailbox{};
    std::thread kernel;
    std::atomic<bool> over{false};
    MailboxVerdict verdict;
    const auto start = [&] {
      kernel = std::thread([&] {
        gpu_shim::launch(1, 1, [&] { gpu_code::answer_mailbox(&mailbox, u64{kMailboxPatience.count()} * 1000000); });
        over = true;
      });
    };
    if (silent) {  // the host does not ask a second time
      mailbox.ask = kFirstAsk;
      start();
      kernel.join();
      EXPECT(mailbox.answer == kMailboxGaveUp, "%llx", wide(mailbox.answer));
    } else {
      for (u32 tries = 0; tries == 0 || (verdict.wrong && tries < 8); ++tries) {
        over = false;
        mailbox.answer = 0;
        verdict = self_test(mailbox, start, [&] { return over.load(); });
        kernel.join();
      }
      EXPECT(verdict.wrong == nullptr, "%s", verdict.wrong);
    }
  }
}

int main(int argc, char** argv) {
  const u64 logs = argument(argc, argv, 1, 30);
  test_team();
  test_completion();
  test_fault();
  test_initialise();
  test_fetch();
  test_mailbox();
  const u64 commands = run({600, 24, 64, kForceBits + 5, 6}, 2, logs) + run({600, 24, 64, 0, 6, 1}, 3, logs / 2 + 1);
  std::printf("kernels on %u threads: %llu commands as the host and the model, by every carrier\n", gpu_code::kThreads,
              wide(commands));
  return 0;
}
