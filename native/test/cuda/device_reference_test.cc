// The reference executor on an emulated GPU against the one on the host: the same steps, several in
// flight at once, give the same answers. Damaged steps are refused or reported, and no foreign
// memory is accessed.
#include <optional>
#include <thread>

#include "../../cuda/base/backend.h"
#include "../../cuda/memory/memory.h"
#include "../../cuda/reference/staged_memory.h"
#include "../../reference/memory/host_memory.h"
#include "../reference/reference_steps.h"

using namespace blockstep;
using namespace blockstep::test;
using blockstep::cuda::MappedMemory;

/// Tables in GPU memory, one set for each step in flight.
struct TablesOnGpu {
  TablesOnGpu(const ReferenceConfig& of, u32 sets)
      : config(of), stride((tables_bytes(of.tables) + 255) / 256 * 256) {
    const cuda::OnDevice on(0);
    memory.emplace(sets * stride);
  }
  TablesOnDevice copy(u32 set, const Buffers& buffers) {
    u8* base = memory->base() + set * stride;
    std::memcpy(base, buffers.tables.get(), static_cast<std::size_t>(tables_bytes(config.tables)));
    TablesOnDevice tables{lay_out_tables(config.tables, memory->on_device(base)), {}};
    for (u32 g = 0; g < config.tables.num_lists(); ++g) tables.groups[g] = lay_out_group(config.tables, tables.at, g);
    return tables;
  }
  ReferenceConfig config;
  u64 stride;
  std::optional<MappedMemory> memory;
};

static void drain(DeviceReference& gpu, void* io) {
  while (!gpu.drain(io)) {
    if (gpu.num_sequences() > 1000) break;  // may be called at any time
    std::this_thread::yield();
  }
}

/// Compares the complete answers of a step.
static void expect_same(const ReferenceConfig& config, const Buffers& a, const Buffers& b, u32 round) {
  const StepIo one = lay_out_step(config, a.io.get());
  const StepIo other = lay_out_step(config, b.io.get());
  const auto equal = [](const auto* x, const auto* y, u32 count) { return std::equal(x, x + count, y); };
  const u32 findings = static_cast<u32>(one.control[kNumFindings]);
  EXPECT(equal(one.control, other.control, 4), "round %u: %d and %d findings", round, one.control[kNumFindings],
         other.control[kNumFindings]);
  const auto n = static_cast<u32>(one.control[kNumEntries]);
  EXPECT(equal(one.counts, other.counts, n) && equal(one.errors, other.errors, n), "round %u: counts", round);
  EXPECT(equal(one.tokens, other.tokens, static_cast<u32>(one.control[kNumTokens])), "round %u: tokens", round);
  EXPECT(equal(one.findings, other.findings, std::min(findings, kMaxFindings) * kFindingNumbers), "round %u: findings", round);
}

/// A text on the GPU and on the host, with every step submitted before the previous step's answer
/// was taken.
static void test_flight(u32 steps) {
  const ReferenceConfig config{40, 4, {120, 2, 30}, 0, 3, 5, -1, 0, false};
  const auto gpu = cuda::open_reference(config, 0);
  ReferenceModel host(config);
  TablesOnGpu on_gpu(config, config.pipeline_depth + 1);  // one for a refused step
  std::vector<std::unique_ptr<Buffers>> expected;
  const auto taken = [&](u32 step) {
    Buffers answer(config);
    drain(*gpu, answer.io.get());
    expect_same(config, *expected[step], answer, step);
    EXPECT(lay_out_step(config, answer.io.get()).control[kNumFindings] == 0, "step %u", step);
  };
  for (u32 step = 0; step < steps; ++step) {
    auto buffers = std::make_unique<Buffers>(config);
    if (step == 0) fill(config, *buffers, 1, 9, 3);
    else decode(config, *buffers, 1, 8 + step, 3);
    if (step >= config.pipeline_depth) taken(step - config.pipeline_depth);
    const Span<const std::int32_t> known{buffers->known.data(), static_cast<u32>(buffers->known.size())};
    gpu->submit(buffers->io.get(), on_gpu.copy(step % config.pipeline_depth, *buffers), known);
    host.step(lay_out_step(config, buffers->io.get()), lay_out_tables(config.tables, buffers->tables.get()), known);
    expected.push_back(std::move(buffers));
  }
  for (u32 step = steps - config.pipeline_depth; step < steps; ++step) taken(step);
  bool refused = false;
  Buffers bad(config);
  fill(config, bad, 0, 3, 20);  // no request has the handle 0
  try {
    gpu->submit(bad.io.get(), on_gpu.copy(0, bad), {bad.known.data(), 3});
  } catch (const Error& error) {
    refused = error.code == kBadArg;
  }
  EXPECT(refused, "a plan that makes no sense");
  bool full = false;
  Buffers more(config);
  fill(config, more, 2, 3, 20);
  for (u32 i = 0; i <= config.pipeline_depth; ++i) {
    try {
      gpu->submit(more.io.get(), on_gpu.copy(i, more), {more.known.data(), 3});
    } catch (const Error& error) {
      full = error.code == kLimit && i == config.pipeline_depth;
    }
  }
  EXPECT(full, "more steps than there is room for");
  // This also works with steps in flight.
}

/// Rows that are longer than the window.
static void test_windows() {
  const ReferenceConfig config{6, 40000, {40020, 1, 3}, 0, 1, 5, -1, 0, false};
  const auto gpu = cuda::open_reference(config, 0);
  ReferenceModel host(config);
  TablesOnGpu on_gpu(config, 1);
  for (u32 step = 0; step < 2; ++step) {
    Buffers buffers(config);
    if (step == 0) fill(config, buffers, 1, 40010, 2);
    else decode(config, buffers, 1, 40010, 2);
    const Span<const std::int32_t> known{buffers.known.data(), static_cast<u32>(buffers.known.size())};
    gpu->submit(buffers.io.get(), on_gpu.copy(0, buffers), known);
    host.step(lay_out_step(config, buffers.io.get()), lay_out_tables(config.tables, buffers.tables.get()), known);
    Buffers answer(config);
    drain(*gpu, answer.io.get());
    expect_same(config, buffers, answer, step);
    EXPECT(lay_out_step(config, answer.io.get()).control[kNumFindings] == 0, "step %u", step);
  }
}

/// Blocks that a lane filled, or did not, are adopted after the earlier steps.
static void test_adoption() {
  const ReferenceConfig config{10, 4, {32, 2, 8}, 0, 2, 5, -1, 0, true};
  const auto gpu = cuda::open_reference(config, 0);
  TablesOnGpu on_gpu(config, 2);
  Buffers buffers(config);
  const auto run = [&](u32 set) {
    gpu->submit(buffers.io.get(), on_gpu.copy(set, buffers), {buffers.known.data(), static_cast<u32>(buffers.known.size())});
    drain(*gpu, buffers.io.get());
    return lay_out_step(config, buffers.io.get()).control[kNumFindings];
  };
  fill(config, buffers, 1, 8, 1);
  EXPECT(run(0) == 0, "the text that is copied");
  std::vector<u8> block(gpu->blocks()->bytes_per_block());
  gpu->blocks()->read_block(1, block.data());
  const std::int32_t good[] = {5};
  const std::int32_t bad[] = {7};
  // Twice, so that the copied generation differs from the block's.
  for (const u64 handle : {9, 2}) {
    gpu->blocks()->write_block(5, block.data());
    gpu->blocks()->arrived(5, 1);
    gpu->adopt(handle, {good, 1});
  }
  gpu->blocks()->write_block(7, block.data());  // without a report
  // Request 2 has its first block from a lane, and computes the second block.
  const auto second = [&](u32 first) {
    fill(config, buffers, 2, 8, first);
    const StepIo io = lay_out_step(config, buffers.io.get());
    const Tables tables = lay_out_tables(config.tables, buffers.tables.get());
    *const_cast<std::int32_t*>(io.scheduled) = 4;
    tables.num_computed[0] = 4;
    tables.query_start[1] = 4;
    for (u32 i = 0; i < 4; ++i) tables.slot_mapping[i] = (first + 1) * 4 + i;
  };
  second(5);
  EXPECT(run(1) == 0, "a block that a lane filled");
  second(7);
  gpu->adopt(2, {bad, 1});
  EXPECT(run(0) > 0, "a block that no lane filled");
  for (const std::int32_t none : {0, -1, 10}) {
    bool refused = false;
    try {
      gpu->adopt(2, {&none, 1});
    } catch (const Error& error) {
      refused = error.code == kBadArg;
    }
    EXPECT(refused, "block %d was adopted", none);
  }
}

/// A slow step is queried every 2 ms, because a query disturbs the GPU.
static void test_slow() {
  const ReferenceConfig config{10, 4, {32, 2, 8}, 0, 1, 5, -1, 0, true};
  const auto gpu = cuda::open_reference(config, 0);
  TablesOnGpu on_gpu(config, 1);
  Buffers buffers(config);
  fill(config, buffers, 1, 8, 1);
  const auto tables = on_gpu.copy(0, buffers);
  setenv("EMULATED_GPU", "hold,ask=1000", 1);  // the thousandth query fails
  gpu->submit(buffers.io.get(), tables, {buffers.known.data(), static_cast<u32>(buffers.known.size())});
  for (u32 polls = 0; polls < 20000; ++polls) EXPECT(!gpu->drain(buffers.io.get()), "a step that is held was taken");
  setenv("EMULATED_GPU", "", 1);
  drain(*gpu, buffers.io.get());
}

/// Full attention, a window over smaller blocks, and two groups of states in longer blocks, which
/// require zeroed blocks in the other groups.
static ReferenceConfig with_groups(u32 max_drafts, bool every_end) {
  ReferenceConfig config{100, 4, {32, 2, 6, 4, {{4, 6, false}, {2, 12, false}, {5, 5, false}, {7, 4, false}}}, max_drafts, 1, 5,
                         -1, 1u << 31, true};
  config.groups[0] = {Reads::kAll, 0, false, true};
  config.groups[1] = {Reads::kWindow, 3, false, true};
  config.groups[2] = config.groups[3] = {Reads::kState, 0, every_end, false};
  return config;
}

/// Texts with groups on both executors, in the same steps. Each step must have the same answers and
/// findings.
struct GroupTexts {
  explicit GroupTexts(const ReferenceConfig& of, u32 number)
      : config(of), gpu(cuda::open_reference(of, 0)), host(of), on_gpu(of, 1), round(number) {}

  /// A text and its numbers of computed and known tokens. Its drafts are from the last answer.
  struct Line {
    GroupText text;
    u32 computed = 0;
    u32 known = text.num_prompt;
    std::vector<std::int32_t> drafts = {};
  };

  /// Computes a step of these texts, each up to position `most` or its known tokens. Returns the
  /// number of findings.
  template <class Change>
  std::int32_t step(std::initializer_list<Line*> lines, u32 most, const Change& change) {
    Buffers buffers(config);
    for (Line* line : lines) {
      const auto count = static_cast<u32>(line->drafts.size());
      line->text.append(buffers, line->computed, std::min(most, line->known) + count, {line->drafts.data(), count});
    }
    change(buffers);
    const Span<const std::int32_t> known{buffers.known.data(), static_cast<u32>(buffers.known.size())};
    const Span<const std::int32_t> zeroed{buffers.zeroed.data(), static_cast<u32>(buffers.zeroed.size())};
    Buffers answer(config);
    gpu->submit(buffers.io.get(), on_gpu.copy(0, buffers), known, zeroed);
    host.step(lay_out_step(config, buffers.io.get()), lay_out_tables(config.tables, buffers.tables.get()), known, zeroed);
    drain(*gpu, answer.io.get());
    expect_same(config, buffers, answer, round);
    const StepIo io = lay_out_step(config, answer.io.get());
    const std::int32_t* drafts = io.next_drafts;
    u32 e = 0;
    for (Line* line : lines) {
      const auto count = static_cast<u32>(io.counts[e]);
      if (count > 0) accepted += count - 1;
      line->computed = count == 0 ? std::min(most, line->known) : line->known + count - 1;
      line->known += count;
      line->drafts.assign(drafts, drafts + io.next_counts[e]);
      drafts += io.next_counts[e++];
    }
    return io.control[kNumFindings];
  }
  std::int32_t step(std::initializer_list<Line*> lines, u32 most = 1000) {
    return step(lines, most, [](Buffers&) {});
  }

  ReferenceConfig config;
  std::shared_ptr<DeviceReference> gpu;
  ReferenceModel host;
  TablesOnGpu on_gpu;
  u32 round;
  u32 accepted = 0;
};

/// The change of a step before both executors get it.
enum class Harm { kNone, kRow, kSlot, kUnwritten, kUnzeroed, kForeign, kNull };

/// Texts with groups and drafts, of which one is harmed in its last step.
static void test_groups() {
#if defined(__SANITIZE_THREAD__)
  constexpr u32 kEvery = 8;  // all six kinds of groups, each with another harm: steps take seconds here
#else
  constexpr u32 kEvery = 1;
#endif
  u32 accepted = 0;
  for (u32 round = 0; round < 42; round += kEvery) {
    const auto harm = static_cast<Harm>(round % 7);
    GroupTexts both(with_groups(round / 7 % 3, round / 21 == 1), round);
    const ReferenceConfig& config = both.config;
    GroupTexts::Line other{{config, 2, 49, 6}};
    GroupTexts::Line line{{config, 1, 1, 7}};
    EXPECT(both.step({&line}, 3) == 0, "round %u: a chunk of a prompt", round);
    EXPECT(both.step({&other, &line}) == 0, "round %u: prompts", round);
    for (u32 step = 0; step < 3; ++step) {
      const bool swapped = step % 2 == 1;
      const std::int32_t findings = swapped ? both.step({&line, &other}) : both.step({&other, &line});
      EXPECT(findings == 0, "round %u, step %u: %d findings", round, step, findings);
    }
    const u32 last = line.computed;
    const std::int32_t findings = both.step({&line}, 1000, [&](Buffers& buffers) {
      const Tables tables = lay_out_tables(config.tables, buffers.tables.get());
      const auto group = [&](u32 g) { return lay_out_group(config.tables, tables, g); };
      if (harm == Harm::kRow) group(1).block_table[(last - 1) / 2] = other.text.block(1, 2);
      // A slot that no other token of the step has.
      if (harm == Harm::kSlot) group(1).slot_mapping[0] = 48 * 2;
      if (harm == Harm::kUnwritten) group(3).block_table[(last - 1) / 7] = 48;
      if (harm == Harm::kNull) group(2).block_table[(last - 1) / 5] = 0;
      if (harm == Harm::kForeign) {  // the plan does not include that the request took a block
        const StepIo io = lay_out_step(config, buffers.io.get());
        const_cast<std::int32_t*>(io.num_new_blocks)[config.tables.max_entries] = 0;
        group(1).block_table[last / 2] = other.text.block(1, 0);
        group(1).slot_mapping[0] = other.text.block(1, 0) * 2 + last % 2;
      }
    });
    if (harm == Harm::kUnzeroed) {
      // Request 3 takes a block that held a state, then request 4 takes it.
      GroupTexts::Line taker{{config, 3, 25, 2}};
      const auto forget = [](Buffers& buffers) { buffers.zeroed.clear(); };
      EXPECT(both.step({&taker}, 1000, forget) > 0, "round %u: a block that was not zeroed", round);
      GroupTexts::Line next{{config, 4, 25, 2}};
      EXPECT(both.step({&next}) == 0, "round %u: a block that was zeroed", round);
    } else {
      EXPECT((findings > 0) == (harm != Harm::kNone), "round %u: %d findings", round, findings);
    }
    accepted += both.accepted;
  }
  EXPECT(accepted > 10 / kEvery, "%u drafts were accepted", accepted);
}

/// An astray entry is reported once, with its group.
static void test_astray() {
  const cuda::OnDevice on(0);
  const auto arena = std::make_shared<BlockArena>(4u, u64{2} * sizeof(KvEntry));
  cuda::StagedMemory memory(arena, 2);
  std::vector<cuda::EntryOrder> orders(3);
  const std::vector<u64> starts = {0};
  memory.prepare(orders.data(), nullptr, starts, 0);
  memory.place({1, 7, 3}, 3, 1, {1, 1, 1, 5, 1, 2});
  memory.place({0, 8, 4}, 4, 1, {1, 1, 1, 6, 1, 1});
  orders[0].found = 2;
  orders[1].found = 4;
  const Span<const Astray> first = memory.astray();
  EXPECT(first.size == 1, "%u entries", first.size);
  const Astray& astray = first.data[0];
  EXPECT(astray.entry == 1 && astray.group == 2 && astray.position == 5 && astray.expected == 3 && astray.found == 2, "which");
  EXPECT(memory.astray().size == 0, "told twice");
  memory.place({0, kNone, 2}, 2, 1, {1, 1, 1, 7, 1, 1});
  EXPECT(memory.astray().size == 1, "one that was not written");
  memory.prepare(orders.data(), nullptr, starts, 0);
  EXPECT(memory.astray().size == 0 && memory.num_orders() == 0, "the next step");
  memory.place({0, kNone, 2}, 2, 1, {1, 1, 1, 7, 1, 1});
  EXPECT(memory.astray().size == 1, "one of the next step that was not written");
}

/// A state goes astray because the tables change during judge(): its entry fails after its answer.
static void test_late_state() {
  /// Host memory whose last entry goes astray once the step has been judged.
  struct Fickle final : HostMemory {
    explicit Fickle(const ReferenceConfig& config) : HostMemory(config.num_blocks, config.block_size) {}
    Span<const Astray> astray() override {
      late = {0, 2, 8, 5, 6};
      return {&late, ++calls % 2 == 0 && is_on ? 1u : 0u};
    }
    Astray late{};
    u32 calls = 0;
    bool is_on = false;
  };
  for (const bool report_only : {false, true}) {
    ReferenceConfig config = with_groups(2, false);
    config.report_only = report_only;
    auto memory = std::make_unique<Fickle>(config);
    Fickle& fickle = *memory;
    ReferenceModel model(config, std::move(memory));
    Buffers buffers(config);
    GroupText{config, 1, 1, 7}.append(buffers, 0, 7, {nullptr, 0});
    const StepIo io = lay_out_step(config, buffers.io.get());
    fickle.is_on = true;
    model.step(io, lay_out_tables(config.tables, buffers.tables.get()), {buffers.known.data(), 7});
    EXPECT(io.control[kNumFindings] == 1 && io.findings[0] == static_cast<double>(Mismatch::kSlot), "the finding");
    EXPECT(io.findings[3] == 8 && io.findings[5] == 5 && io.findings[6] == 6 && io.findings[11] == 2, "position and group");
    EXPECT(io.errors[0] == !report_only && io.control[kNumErrors] == !report_only && io.counts[0] == 1, "the entry");
  }
}

[[maybe_unused]] static void test_damage(u32 rounds) {
  Random random(3);
  u32 refused = 0;
  u32 found = 0;
  for (u32 round = 0; round < rounds; ++round) {
    ReferenceConfig config{12, 1 + random.below(5), {32, 3, 8}, random.below(4), 1 + random.below(3), 5, -1, 1u << 30, false};
    const bool grouped = random.one_in(3);
    if (grouped) config = with_groups(random.below(3), random.one_in(2));
    config.report_only = random.one_in(2);
    const auto gpu = cuda::open_reference(config, 0);
    ReferenceModel host(config);
    TablesOnGpu on_gpu(config, 1);
    for (u32 step = 0; step < 4; ++step) {
      Buffers buffers(config);
      const u32 count = 1 + random.below(8);
      if (grouped) GroupText{config, 1 + random.below(2), 1 + random.below(3), count}.append(buffers, 0, count, {nullptr, 0});
      else fill(config, buffers, 1 + random.below(2), count, 1 + random.below(3));
      for (u32 i = random.below(4); i > 0; --i) {
        const bool in_tables = random.one_in(2);
        auto* words = in_tables ? reinterpret_cast<u32*>(buffers.tables.get()) : reinterpret_cast<u32*>(buffers.io.get());
        words[random.below((in_tables ? buffers.table_bytes : buffers.io_bytes) / 4)] = damage(random);
      }
      const Span<const std::int32_t> known{buffers.known.data(), static_cast<u32>(buffers.known.size())};
      const StepIo io = lay_out_step(config, buffers.io.get());
      bool host_refuses = false;
      Buffers answer(config);
      std::memcpy(answer.io.get(), buffers.io.get(), static_cast<std::size_t>(buffers.io_bytes));
      try {
        host.step(lay_out_step(config, answer.io.get()), lay_out_tables(config.tables, buffers.tables.get()), known);
      } catch (const Error&) {
        host_refuses = true;
      }
      bool refuses = false;
      try {
        gpu->submit(buffers.io.get(), on_gpu.copy(0, buffers), known);
        drain(*gpu, buffers.io.get());
      } catch (const Error& error) {
        EXPECT(error.code == kBadArg, "round %u: %s", round, error.message.c_str());
        refuses = true;
      }
      EXPECT(refuses == host_refuses, "round %u: refused by one of both", round);
      refused += refuses;
      if (refuses) continue;
      const bool wrong = lay_out_step(config, answer.io.get()).control[kNumFindings] > 0;
      EXPECT(!wrong || io.control[kNumFindings] > 0, "round %u, step %u: nothing was found", round, step);
      found += wrong;
    }
  }
  EXPECT(found > 0, "nothing was damaged");
  std::printf("%u damaged steps refused, %u found out", refused, found);
}

int main(int argc, char** argv) {
  const u32 times = static_cast<u32>(argument(argc, argv, 1, 10));
  test_flight(std::min(20 + times, 100u));
  test_windows();
  test_adoption();
  test_slow();
  test_groups();
  test_astray();
  test_late_state();
#if !defined(__SANITIZE_THREAD__)
  // A damaged table may name a slot twice. Two threads then write it, which is the damage.
  test_damage(times);
#endif
  return 0;
}
