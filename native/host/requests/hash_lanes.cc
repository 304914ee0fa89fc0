#include "hash_lanes.h"

#include <cstring>

#include "../../core/base/block_hash.h"

namespace blockstep {

// On other processors, two blocks side by side take twice the time of one.
#if defined(__GNUC__) && defined(__x86_64__)
// GCC splits vectors before it knows the processor features of a function, and regards their parts
// as uninitialised.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
namespace {

constexpr u32 kLanes = 4;
using Words = u64 __attribute__((vector_size(8 * kLanes)));

/// Reads the tokens of a block in each lane. of(lane) is their start.
template <class Of>
[[gnu::always_inline]] inline auto tokens_of(const Of& of) {
  return [&of](u32 at, u32 count, Words& words) __attribute__((always_inline)) {
    const auto word = [=, &of](u32 lane) {
      u64 read = 0;
      std::memcpy(&read, of(lane) + at, count * sizeof(u32));
      return read;
    };
    words = Words{word(0), word(1), word(2), word(3)};
  };
}

[[gnu::always_inline]] inline void hash_four(const Key& seed, u32 block_size, const Unhashed* blocks) {
  const auto of = [=](u32 lane) { return blocks[lane].tokens; };
  const auto tokens = tokens_of(of);
  const auto parent = [=](u32 lane) { return blocks[lane].hashes[0]; };
  Words lo{parent(0).lo, parent(1).lo, parent(2).lo, parent(3).lo};
  Words hi{parent(0).hi, parent(1).hi, parent(2).hi, parent(3).hi};
  Sip<Words> state{};
  absorb_tokens(seed, block_size, tokens, state);
  absorb_parent(state, block_size, tokens, lo, hi);
  for (u32 lane = 0; lane < kLanes; ++lane) blocks[lane].hashes[1] = {lo[lane], hi[lane]};
}

[[gnu::always_inline]] inline void absorb_four(const Key& seed, u32 block_size, const std::int32_t* tokens, Sip<u64>* to) {
  const auto of = [=](u32 lane) { return tokens + lane * block_size; };
  Sip<Words> state{};
  absorb_tokens(seed, block_size, tokens_of(of), state);
  for (u32 lane = 0; lane < kLanes; ++lane) to[lane] = {state.v0[lane], state.v1[lane], state.v2[lane], state.v3[lane]};
}

/// The tokens of the next four blocks are absorbed while the parents' hashes of the current four
/// are chained.
[[gnu::always_inline]] inline void chain_by_four(const Key& seed, u32 block_size, const std::int32_t* tokens, u32 n, Key* hashes) {
  Sip<u64> states[2][kLanes];
  absorb_four(seed, block_size, tokens, states[0]);
  Key parent = hashes[0];
  for (u32 first = 0; first < n; first += kLanes) {
    Sip<u64>* const these = states[first / kLanes % 2];
    Sip<u64>* const next = states[(first / kLanes + 1) % 2];
    if (first + kLanes < n) absorb_four(seed, block_size, tokens + kLanes * block_size, next);
    for (u32 lane = 0; lane < kLanes; ++lane, tokens += block_size) {
      absorb_parent(these[lane], block_size, TokenWords{tokens}, parent.lo, parent.hi);
      hashes[1 + first + lane] = parent;
    }
  }
}

#define BLOCKSTEP_IN_LANES(NAME, TARGET)                                                                                 \
  [[gnu::target(TARGET)]] void blocks_##NAME(const Key& seed, u32 block_size, const Unhashed* blocks, u32 n) {           \
    for (u32 at = 0; at < n; at += kLanes) hash_four(seed, block_size, blocks + at);                                     \
  }                                                                                                                      \
  [[gnu::target(TARGET)]] void chain_##NAME(const Key& seed, u32 block_size, const std::int32_t* tokens, u32 n, Key* hashes) { \
    chain_by_four(seed, block_size, tokens, n, hashes);                                                                  \
  }
BLOCKSTEP_IN_LANES(avx2, "avx2")
BLOCKSTEP_IN_LANES(avx512, "avx512f,avx512vl,avx512dq")
#undef BLOCKSTEP_IN_LANES

/// Number of the `n` blocks that fill all lanes.
u32 whole(Lanes lanes, u32 n) { return lanes == Lanes::kOne ? 0 : n / kLanes * kLanes; }

}  // namespace
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

bool has_lanes(Lanes lanes) {
  if (lanes == Lanes::kAvx2) return __builtin_cpu_supports("avx2");
  if (lanes == Lanes::kAvx512) return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return true;
}

void hash_blocks(Lanes lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks) {
  const u32 n = whole(lanes, blocks.size);
  if (n != 0) (lanes == Lanes::kAvx2 ? blocks_avx2 : blocks_avx512)(seed, block_size, blocks.data, n);
  for (u32 at = n; at < blocks.size; ++at) {
    const Unhashed& block = blocks.data[at];
    chain(seed, block.hashes[0], block.tokens, block_size, 1, block.hashes + 1);
  }
}

void hash_chain(Lanes lanes, const Key& seed, u32 block_size, const std::int32_t* tokens, u32 n, Key* hashes) {
  const u32 done = whole(lanes, n);
  if (done != 0) (lanes == Lanes::kAvx2 ? chain_avx2 : chain_avx512)(seed, block_size, tokens, done, hashes);
  chain(seed, hashes[done], tokens + u64{done} * block_size, block_size, n - done, hashes + done + 1);
}
#else
bool has_lanes(Lanes lanes) { return lanes == Lanes::kOne; }

void hash_blocks(Lanes, const Key& seed, u32 block_size, Span<const Unhashed> blocks) {
  for (u32 at = 0; at < blocks.size; ++at) {
    const Unhashed& block = blocks.data[at];
    chain(seed, block.hashes[0], block.tokens, block_size, 1, block.hashes + 1);
  }
}

void hash_chain(Lanes, const Key& seed, u32 block_size, const std::int32_t* tokens, u32 n, Key* hashes) {
  chain(seed, hashes[0], tokens, block_size, n, hashes + 1);
}
#endif

Lanes best_lanes() {
  if (has_lanes(Lanes::kAvx512)) return Lanes::kAvx512;
  return has_lanes(Lanes::kAvx2) ? Lanes::kAvx2 : Lanes::kOne;
}

}  // namespace blockstep
