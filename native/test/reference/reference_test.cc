// The reference executor: its model against a definition that tries everything. Damaged plans and
// tables must cause findings or a refusal, and access no foreign memory.
#include "../../reference/reference.h"
#include "reference_steps.h"

using namespace blockstep;
using namespace blockstep::test;

/// The definition of Continuation::next().
static std::int32_t defined_next(const std::vector<std::int32_t>& text, u32 num_prompt, u32 seed, std::int32_t eos) {
  const auto n = static_cast<u32>(text.size());
  u32 best = 0;
  u32 from = kNone;
  for (u32 end = 1; end < n; ++end) {
    u32 length = 0;
    while (length < end && text[end - 1 - length] == text[n - 1 - length]) ++length;
    if (length > best) {
      best = length;
      from = end;
    }
  }
  if (from == kNone) return text[mix32(mix32(seed, n), static_cast<u32>(text.back())) % num_prompt];
  return from >= num_prompt && eos >= 0 ? eos : text[from];
}

static void test_continuation() {
  Random random(1);
  for (u32 round = 0; round < 3000; ++round) {
    const u32 seed = random.below(1u << 30);
    const std::int32_t eos = random.one_in(2) ? -1 : 99;
    Continuation continuation(seed, eos);
    const u32 letters = 1 + random.below(6);
    std::vector<std::int32_t> text(1 + random.below(40));
    for (auto& token : text) token = static_cast<std::int32_t>(random.below(letters));
    const u32 num_prompt = 1 + random.below(text.size());
    for (u32 i = 0; i < 10; ++i) {
      // A separate allocation, so that the sanitizer sees reads beyond either end.
      const std::vector<std::int32_t> copy(text.begin(), text.end());
      const std::int32_t token = continuation.next(copy.data(), static_cast<u32>(copy.size()), num_prompt);
      EXPECT(token == defined_next(text, num_prompt, seed, eos), "round %u, token %u", round, i);
      text.push_back(token);
    }
  }
}

static void test_damage(u32 rounds) {
  Random random(2);
  u32 refused = 0;
  u32 found = 0;
  u32 fine = 0;
  for (u32 round = 0; round < rounds; ++round) {
    ReferenceConfig config{12, 1 + random.below(5), {32, 3, 8}, random.below(4), 1 + random.below(3), 5, -1, 1u << 30, false};
    config.report_only = random.one_in(2);
    ReferenceModel model(config);
    for (u32 step = 0; step < 6; ++step) {
      Buffers buffers(config);
      fill(config, buffers, 1 + random.below(2), 1 + random.below(8), 1 + random.below(3));
      for (u32 i = random.below(4); i > 0; --i) {
        const bool in_tables = random.one_in(2);
        auto* words = in_tables ? reinterpret_cast<u32*>(buffers.tables.get()) : reinterpret_cast<u32*>(buffers.io.get());
        words[random.below((in_tables ? buffers.table_bytes : buffers.io_bytes) / 4)] = damage(random);
      }
      if (random.one_in(9)) buffers.known.push_back(static_cast<std::int32_t>(damage(random)));
      StepIo io = lay_out_step(config, buffers.io.get());
      try {
        model.step(io, lay_out_tables(config.tables, buffers.tables.get()),
                   {buffers.known.data(), static_cast<u32>(buffers.known.size())});
        ++(io.control[kNumFindings] ? found : fine);
      } catch (const Error& error) {
        EXPECT(error.code == kBadArg, "round %u: %s", round, error.message.c_str());
        ++refused;
      }
    }
  }
  EXPECT(refused > rounds / 8 && found > rounds / 8 && fine > rounds / 8, "%u refused, %u found, %u fine", refused, found,
         fine);
  std::printf("%u damaged steps refused, %u found out, %u harmless", refused, found, fine);
}

int main(int argc, char** argv) {
  test_continuation();
  test_damage(argc > 1 ? static_cast<u32>(std::atoi(argv[1])) : 1000);
  return 0;
}
