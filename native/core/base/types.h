// Types of the core: fixed-width integers, the block hash, and the mixing function of the digests.
#pragma once

#include <cstdint>

// Marks functions that are compiled for the host and for CUDA device code. The core is one source
// for both, and differs only in this macro and in BLOCKSTEP_ROLLED. BLOCKSTEP_ROLLED goes before a
// loop that is rarely run or has few rounds. Unrolling such a loop would only lengthen the code,
// and a GPU fetches code from memory after every other kernel.
#if defined(__CUDACC__)
#define BLOCKSTEP_HD __host__ __device__
#else
#define BLOCKSTEP_HD
#endif
// A function that the host compiler always inlines.
#if defined(__GNUC__) && !defined(__CUDACC__)
#define BLOCKSTEP_INLINED [[gnu::always_inline]]
#else
#define BLOCKSTEP_INLINED
#endif
// The host compiler, which nvcc runs too, does not know the pragma.
#if defined(__CUDA_ARCH__)
#define BLOCKSTEP_ROLLED _Pragma("unroll 1")
#else
#define BLOCKSTEP_ROLLED
#endif

namespace blockstep {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// "No block, row or slot": the value of an id or index that refers to no object.
constexpr u32 kNone = 0xffffffffu;

/// Block 0: the placeholder of vLLM's BlockPool. It is never queued, published or counted.
constexpr u32 kNullBlock = 0;

/// A 128-bit block hash, or a 128-bit hash seed. Lookups compare all 128 bits, not only the bits
/// that select the bucket.
struct alignas(16) Key {
  u64 lo;
  u64 hi;
};

BLOCKSTEP_HD inline bool operator==(const Key& a, const Key& b) { return a.lo == b.lo && a.hi == b.hi; }

/// Mixes a pair of words into 64 bits with SplitMix64's finaliser: the building block of the
/// digests.
BLOCKSTEP_HD inline u64 mix(u64 where, u64 what) {
  u64 x = where * 0x9e3779b97f4a7c15u + what + 0x2545f4914f6cdd1du;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace blockstep
