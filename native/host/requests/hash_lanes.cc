#include "hash_lanes.h"

#include <cstring>

#include "../../core/base/block_hash.h"

namespace blockstep {
namespace {

void hash_one(const Key& seed, u32 block_size, const Unhashed& block) {
  chain(seed, block.hashes[0], block.tokens, block_size, 1, block.hashes + 1);
}

// Other processors hash one block as fast as each of two side by side.
#if defined(__GNUC__) && defined(__x86_64__)
constexpr u32 kLanes = 4;
using Words = u64 __attribute__((vector_size(8 * kLanes)));

[[gnu::always_inline]] inline void hash_four(const Key& seed, u32 block_size, const Unhashed* blocks) {
  const auto tokens = [=](u32 at, u32 count, Words& words) __attribute__((always_inline)) {
    for (u32 lane = 0; lane < kLanes; ++lane) {
      u64 word = 0;
      std::memcpy(&word, blocks[lane].tokens + at, count * sizeof(u32));
      words[lane] = word;
    }
  };
  Words lo{}, hi{};
  for (u32 lane = 0; lane < kLanes; ++lane) {
    lo[lane] = blocks[lane].hashes[0].lo;
    hi[lane] = blocks[lane].hashes[0].hi;
  }
  hash_block(seed, block_size, tokens, lo, hi);
  for (u32 lane = 0; lane < kLanes; ++lane) blocks[lane].hashes[1] = {lo[lane], hi[lane]};
}

[[gnu::target("avx2")]] void hash_avx2(const Key& seed, u32 block_size, const Unhashed* blocks, u32 count) {
  for (u32 at = 0; at < count; at += kLanes) hash_four(seed, block_size, blocks + at);
}

[[gnu::target("avx512f,avx512vl,avx512dq")]] void hash_avx512(const Key& seed, u32 block_size, const Unhashed* blocks,
                                                              u32 count) {
  for (u32 at = 0; at < count; at += kLanes) hash_four(seed, block_size, blocks + at);
}

/// Hashes as many leading blocks as fill all lanes, and returns how many these are.
u32 hash_leading(Lanes lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks) {
  const u32 count = lanes == Lanes::kOne ? 0 : blocks.size / kLanes * kLanes;
  if (count != 0) (lanes == Lanes::kAvx2 ? hash_avx2 : hash_avx512)(seed, block_size, blocks.data, count);
  return count;
}
#else
u32 hash_leading(Lanes, const Key&, u32, Span<const Unhashed>) { return 0; }
#endif

const Lanes kBest = has_lanes(Lanes::kAvx512) ? Lanes::kAvx512 : has_lanes(Lanes::kAvx2) ? Lanes::kAvx2 : Lanes::kOne;

}  // namespace

bool has_lanes(Lanes lanes) {
#if defined(__GNUC__) && defined(__x86_64__)
  if (lanes == Lanes::kAvx2) return __builtin_cpu_supports("avx2");
  if (lanes == Lanes::kAvx512) return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  return lanes == Lanes::kOne;
}

void hash_blocks(const Key& seed, u32 block_size, Span<const Unhashed> blocks) {
  hash_blocks(kBest, seed, block_size, blocks);
}

void hash_blocks(Lanes lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks) {
  for (u32 at = hash_leading(lanes, seed, block_size, blocks); at < blocks.size; ++at) {
    hash_one(seed, block_size, blocks.data[at]);
  }
}

}  // namespace blockstep
