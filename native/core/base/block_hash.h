// The block hash: SipHash-1-3 with 128-bit output, chained from block to block.
//
// A block's hash covers its tokens and, through its parent's hash, all earlier tokens:
//
//   hash[i] = SipHash(seed, tokens of block i || hash[i - 1])
//   hash[-1] = root(seed, adapter, salt)
//
// The parent's hash comes last in the message. The tokens, which are four fifths of the work, can
// therefore be absorbed without waiting for it. A secret seed makes it infeasible to choose tokens
// that collide. Messages are little endian on every machine. vLLM chains its block hashes in the
// same way (hash_block_tokens).
//
// Stored blocks are found by these hashes. A change of the function needs another BLOCK_HASH in
// src/core/native/block-hash.ts, and another LOG_VERSION.
#pragma once

#include "types.h"

namespace blockstep {

/// Rounds for each word of a message, and rounds before each half of the output: the 1 and the 3 of
/// SipHash-1-3.
constexpr int kWordRounds = 1;
constexpr int kFinalRounds = 3;

/// The four words of SipHash's state, and the operations on them. A `Word` is a u64 or a vector of
/// u64, which computes several hashes side by side. Words are passed by reference, because the
/// passing of vectors by value depends on the processor.
template <class Word>
struct Sip {
  Word v0, v1, v2, v3;

  BLOCKSTEP_HD BLOCKSTEP_INLINED static void rotate(Word& x, u32 by) { x = x << by | x >> (64 - by); }

  /// The initial state for 128-bit output.
  BLOCKSTEP_HD BLOCKSTEP_INLINED void begin(Key seed) {
    v0 = Word{} + (seed.lo ^ 0x736f6d6570736575u);
    v1 = Word{} + (seed.hi ^ 0x646f72616e646f6du ^ 0xee);
    v2 = Word{} + (seed.lo ^ 0x6c7967656e657261u);
    v3 = Word{} + (seed.hi ^ 0x7465646279746573u);
  }

  BLOCKSTEP_HD BLOCKSTEP_INLINED void round() {
    v0 += v1;
    v2 += v3;
    rotate(v1, 13);
    rotate(v3, 16);
    v1 ^= v0;
    v3 ^= v2;
    rotate(v0, 32);
    v2 += v1;
    v0 += v3;
    rotate(v1, 17);
    rotate(v3, 21);
    v1 ^= v2;
    v3 ^= v0;
    rotate(v2, 32);
  }

  BLOCKSTEP_HD BLOCKSTEP_INLINED void absorb(const Word& word) {
    v3 ^= word;
    for (int i = 0; i < kWordRounds; ++i) round();
    v0 ^= word;
  }

  /// Absorbs the last 0 to 7 bytes (`rest`, low byte first) and the length of the whole message,
  /// and ends the message.
  BLOCKSTEP_HD BLOCKSTEP_INLINED void end(const Word& rest, u64 length, Word& lo, Word& hi) {
    absorb(rest | (length << 56));
    v2 ^= 0xee;
    for (int i = 0; i < kFinalRounds; ++i) round();
    lo = v0 ^ v1 ^ v2 ^ v3;
    v1 ^= 0xdd;
    for (int i = 0; i < kFinalRounds; ++i) round();
    hi = v0 ^ v1 ^ v2 ^ v3;
  }
};

/// Hashes a message that arrives in pieces. It is a plain value: a copy continues independently
/// from the same prefix.
class SipHash {
 public:
  BLOCKSTEP_HD explicit SipHash(Key seed) { state_.begin(seed); }

  BLOCKSTEP_HD void add(const void* bytes, u64 count) {
    const u8* from = static_cast<const u8*>(bytes);
    for (u64 i = 0; i < count; ++i) add_byte(from[i]);
  }

  /// Adds the lowest `count` bytes of `value`, low byte first.
  BLOCKSTEP_HD void add_word(u64 value, u32 count) {
    for (u32 i = 0; i < count; ++i) add_byte(static_cast<u8>(value >> (8 * i)));
  }

  BLOCKSTEP_HD Key finish() const {
    Sip<u64> last = state_;
    Key key;
    last.end(rest_, length_, key.lo, key.hi);
    return key;
  }

 private:
  BLOCKSTEP_HD void add_byte(u8 byte) {
    rest_ |= u64{byte} << (8 * (length_ & 7));
    if ((++length_ & 7) != 0) return;
    state_.absorb(rest_);
    rest_ = 0;
  }

  Sip<u64> state_;
  u64 rest_ = 0;  // the bytes of the current word that were added so far
  u64 length_ = 0;
};

/// SipHash-1-3-128 of `length` bytes. `seed` is the 16-byte key: its lo is the first eight bytes,
/// little endian. The result's lo is the first eight bytes of the published output.
BLOCKSTEP_HD inline Key siphash128(Key seed, const void* bytes, u64 length) {
  SipHash hash(seed);
  hash.add(bytes, length);
  return hash.finish();
}

/// The root of a request's chain of hashes. Requests with different adapters or cache salts get
/// different roots, so they never share blocks. An adapter or salt of length > 0 is added with a
/// tag and its length, so two different pairs never make the same message. Lengths are in bytes.
BLOCKSTEP_HD inline Key chain_root(Key seed, const void* adapter, u32 adapter_length, const void* salt,
                                   u32 salt_length) {
  SipHash hash(seed);
  if (adapter_length != 0) {
    hash.add_word(1, 1);
    hash.add_word(adapter_length, 4);
    hash.add(adapter, adapter_length);
  }
  if (salt_length != 0) {
    hash.add_word(2, 1);
    hash.add_word(salt_length, 4);
    hash.add(salt, salt_length);
  }
  return hash.finish();
}

/// Absorbs the tokens of a block, the part of its hash that does not depend on its parent. The call
/// tokens(i, n, word) puts n tokens (1 or 2) from index i into a word, the first token in the lower
/// half.
template <class Word, class Tokens>
BLOCKSTEP_HD BLOCKSTEP_INLINED inline void absorb_tokens(Key seed, u32 block_size, const Tokens& tokens, Sip<Word>& state) {
  state.begin(seed);
  Word word{};
  for (u32 i = 0; i + 1 < block_size; i += 2) {
    tokens(i, 2, word);
    state.absorb(word);
  }
}

/// Ends the hash of a block. On entry, `lo` and `hi` are the hash of its parent. With an odd block
/// size, the last token shares a word with the parent's hash.
template <class Word, class Tokens>
BLOCKSTEP_HD BLOCKSTEP_INLINED inline void absorb_parent(Sip<Word>& state, u32 block_size, const Tokens& tokens, Word& lo,
                                                         Word& hi) {
  const u64 length = u64{4} * block_size + 16;
  if (block_size % 2 == 0) {
    state.absorb(lo);
    state.absorb(hi);
    state.end(Word{}, length, lo, hi);
  } else {
    Word word{};
    tokens(block_size - 1, 1, word);
    state.absorb(word | lo << 32);
    state.absorb(lo >> 32 | hi << 32);
    state.end(hi >> 32, length, lo, hi);
  }
}

/// The tokens from `tokens` on, in the form that absorb_tokens() reads.
struct TokenWords {
  const std::int32_t* tokens;

  BLOCKSTEP_HD BLOCKSTEP_INLINED void operator()(u32 at, u32 count, u64& word) const {
    word = static_cast<u32>(tokens[at]);
    if (count == 2) word |= u64{static_cast<u32>(tokens[at + 1])} << 32;
  }
};

/// Writes the hashes of `n` full blocks of `block_size` >= 1 tokens each into out[0 .. n). `parent`
/// is the root, or the hash of the block before the first.
BLOCKSTEP_HD inline void chain(Key seed, Key parent, const std::int32_t* tokens, u32 block_size, u32 n, Key* out) {
  for (u32 i = 0; i < n; ++i, tokens += block_size) {
    const TokenWords words{tokens};
    Sip<u64> state;
    absorb_tokens(seed, block_size, words, state);
    absorb_parent(state, block_size, words, parent.lo, parent.hi);
    out[i] = parent;
  }
}

}  // namespace blockstep
