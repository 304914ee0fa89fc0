// Compares SipHash-1-3 with 128-bit output to a plain SipHash-c-d, which the published vectors
// verify. Compares the block chain to its definition and to blocks that are hashed side by side.
#include "../../core/base/block_hash.h"
#include "../../host/requests/hash_lanes.h"

#include <set>

#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

/// Outputs of the reference implementation of SipHash-2-4-128 for the messages 00, 00 01, ... of 0
/// to 63 bytes, seed 00 01 .. 0f.
static const char* const kVectors[64] = {
    "a3817f04ba25a8e66df67214c7550293",
    "da87c1d86b99af44347659119b22fc45",
    "8177228da4a45dc7fca38bdef60affe4",
    "9c70b60c5267a94e5f33b6b02985ed51",
    "f88164c12d9c8faf7d0f6e7c7bcd5579",
    "1368875980776f8854527a07690e9627",
    "14eeca338b208613485ea0308fd7a15e",
    "a1f1ebbed8dbc153c0b84aa61ff08239",
    "3b62a9ba6258f5610f83e264f31497b4",
    "264499060ad9baabc47f8b02bb6d71ed",
    "00110dc378146956c95447d3f3d0fbba",
    "0151c568386b6677a2b4dc6f81e5dc18",
    "d626b266905ef35882634df68532c125",
    "9869e247e9c08b10d029934fc4b952f7",
    "31fcefac66d7de9c7ec7485fe4494902",
    "5493e99933b0a8117e08ec0f97cfc3d9",
    "6ee2a4ca67b054bbfd3315bf85230577",
    "473d06e8738db89854c066c47ae47740",
    "a426e5e423bf4885294da481feaef723",
    "78017731cf65fab074d5208952512eb1",
    "9e25fc833f2290733e9344a5e83839eb",
    "568e495abe525a218a2214cd3e071d12",
    "4a29b54552d16b9a469c10528eff0aae",
    "c9d184ddd5a9f5e0cf8ce29a9abf691c",
    "2db479ae78bd50d8882a8a178a6132ad",
    "8ece5f042d5e447b5051b9eacb8d8f6f",
    "9c0b53b4b3c307e87eaee08678141f66",
    "abf248af69a6eae4bfd3eb2f129eeb94",
    "0664da1668574b88b935f3027358aef4",
    "aa4b9dc4bf337de90cd4fd3c467c6ab7",
    "ea5c7f471faf6bde2b1ad7d4686d2287",
    "2939b0183223fafc1723de4f52c43d35",
    "7c3956ca5eeafc3e363e9d556546eb68",
    "77c6077146f01c32b6b69d5f4ea9ffcf",
    "37a6986cb8847edf0925f0f1309b54de",
    "a705f0e69da9a8f907241a2e923c8cc8",
    "3dc47d1f29c448461e9e76ed904f6711",
    "0d62bf01e6fc0e1a0d3c4751c5d3692b",
    "8c03468bca7c669ee4fd5e084bbee7b5",
    "528a5bb93baf2c9c4473cce5d0d22bd9",
    "df6a301e95c95dad97ae0cc8c6913bd8",
    "801189902c857f39e73591285e70b6db",
    "e617346ac9c231bb3650ae34ccca0c5b",
    "27d93437efb721aa401821dcec5adf89",
    "89237d9ded9c5e78d8b1c9b166cc7342",
    "4a6d8091bf5e7d651189fa94a250b14c",
    "0e33f96055e7ae893ffc0e3dcf492902",
    "e61c432b720b19d18ec8d84bdc63151b",
    "f7e5aef549f782cf379055a608269b16",
    "438d030fd0b7a54fa837f2ad201a6403",
    "a590d3ee4fbf04e3247e0d27f286423f",
    "5fe2c1a172fe93c4b15cd37caef9f538",
    "2c97325cbd06b36eb2133dd08b3a017c",
    "92c814227a6bca949ff0659f002ad39e",
    "dce850110bd8328cfbd50841d6911d87",
    "67f14984c7da791248e32bb5922583da",
    "1938f2cf72d54ee97e94166fa91d2a36",
    "74481e9646ed49fe0f6224301604698e",
    "57fca5de98a9d6d8006438d0583d8a1d",
    "9fecde1cefdc1cbed4763674d9575359",
    "e3040c00eb28f15366ca73cbd872e740",
    "7697009a6a831dfecca91c5993670f7a",
    "5853542321f567a005d547a4f04759bd",
    "5150d1772f50834a503e069a973fbd7c",
};

static std::string hex(Key key) {
  std::string text;
  char digits[3];
  for (const u64 word : {key.lo, key.hi}) {
    for (u32 i = 0; i < 64; i += 8) {
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(word >> i & 0xff));
      text += digits;
    }
  }
  return text;
}

/// The only published vector of SipHash-1-3-128, for the empty message (Rust's crate siphasher).
static const char* const kEmpty13 = "e77ebcb22788a5befd62db6add303001";

/// SipHash-c-d with 128-bit output like in its paper: the message is first padded as a whole, then
/// read word by word.
static Key plain_siphash(int c, int d, Key seed, const u8* bytes, u32 length) {
  std::vector<u8> padded(bytes, bytes + length);
  while (padded.size() % 8 != 7) padded.push_back(0);
  padded.push_back(static_cast<u8>(length));
  u64 v[4] = {0x736f6d6570736575u ^ seed.lo, 0x646f72616e646f6du ^ seed.hi, 0x6c7967656e657261u ^ seed.lo,
              0x7465646279746573u ^ seed.hi};
  // V[a] += v[b], then v[b] is rotated and xored with v[a].
  const auto half = [&](int a, int b, int left, int other) {
    v[a] += v[b];
    v[b] = (v[b] << left | v[b] >> (64 - left)) ^ v[a];
    if (other) v[a] = v[a] << other | v[a] >> (64 - other);
  };
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) half(0, 1, 13, 32), half(2, 3, 16, 0), half(0, 3, 21, 0), half(2, 1, 17, 32);
  };
  v[1] ^= 0xee;
  for (std::size_t at = 0; at < padded.size(); at += 8) {
    u64 word = 0;
    for (int i = 0; i < 8; ++i) word |= u64{padded[at + static_cast<std::size_t>(i)]} << (8 * i);
    v[3] ^= word;
    rounds(c);
    v[0] ^= word;
  }
  v[2] ^= 0xee;
  rounds(d);
  const u64 lo = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  rounds(d);
  return {lo, v[0] ^ v[1] ^ v[2] ^ v[3]};
}

static void test_vectors() {
  const Key seed{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  u8 message[64];
  for (u32 i = 0; i < 64; ++i) message[i] = static_cast<u8>(i);
  EXPECT(hex(siphash128(seed, message, 0)) == kEmpty13, "the empty message");
  for (u32 length = 0; length < 64; ++length) {
    const std::string plain = hex(plain_siphash(2, 4, seed, message, length));
    EXPECT(plain == kVectors[length], "2-4, %u bytes: %s instead of %s", length, plain.c_str(), kVectors[length]);
    const std::string got = hex(siphash128(seed, message, length));
    const std::string wanted = hex(plain_siphash(1, 3, seed, message, length));
    EXPECT(got == wanted, "1-3, %u bytes: %s instead of %s", length, got.c_str(), wanted.c_str());
  }
}

/// A message according to its definition: bytes, little endian.
struct Message {
  std::vector<u8> bytes;

  void add(u64 value, u32 count) {
    for (u32 i = 0; i < count; ++i) bytes.push_back(static_cast<u8>(value >> (8 * i)));
  }
  Key hash(Key seed) const { return siphash128(seed, bytes.data(), bytes.size()); }
};

static void test_chain() {
  Random random(1);
  for (u32 block_size = 1; block_size <= 40; ++block_size) {
    const u32 n = 1 + random.below(6);
    const Key seed{random.next(), random.next()};
    const Key root{random.next(), random.next()};
    std::vector<std::int32_t> tokens(n * block_size);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.next() >> 33);
    std::vector<Key> hashes(n);
    chain(seed, root, tokens.data(), block_size, n, hashes.data());
    Key parent = root;
    for (u32 i = 0; i < n; ++i) {
      Message message;
      for (u32 k = 0; k < block_size; ++k) message.add(static_cast<u32>(tokens[i * block_size + k]), 4);
      message.add(parent.lo, 8);
      message.add(parent.hi, 8);
      parent = message.hash(seed);
      EXPECT(hashes[i] == parent, "block %u of %u, block size %u", i, n, block_size);
    }
    // In two halves, like for a request that grows.
    std::vector<Key> halves(n);
    chain(seed, root, tokens.data(), block_size, n / 2, halves.data());
    const Key middle = n / 2 ? halves[n / 2 - 1] : root;
    chain(seed, middle, tokens.data() + n / 2 * block_size, block_size, n - n / 2, halves.data() + n / 2);
    EXPECT(halves == hashes, "block size %u, in two halves", block_size);
  }
}

static void test_root() {
  const Key seed{1, 2};
  const auto root = [&](const std::string& adapter, const std::string& salt) {
    const u32 lengths[2] = {static_cast<u32>(adapter.size()), static_cast<u32>(salt.size())};
    return chain_root(seed, adapter.data(), lengths[0], salt.data(), lengths[1]);
  };
  EXPECT(root("", "") == siphash128(seed, nullptr, 0), "no adapter, no salt: the empty message");
  Message both;
  both.add(1, 1);
  both.add(2, 4);
  both.add('a' | 'b' << 8, 2);
  both.add(2, 1);
  both.add(1, 4);
  both.add('s', 1);
  EXPECT(root("ab", "s") == both.hash(seed), "tag, length, bytes; twice");
  std::set<std::string> roots;
  u32 pairs = 0;
  for (const char* adapter : {"", "a", "ab", "abc", "abcabcabc"}) {
    for (const char* salt : {"", "a", "b", "bc", "c"}) {
      roots.insert(hex(root(adapter, salt)));
      pairs += 1;
    }
  }
  EXPECT(roots.size() == pairs, "%zu roots for %u pairs", roots.size(), pairs);
}

/// Blocks of different chains, and of one chain, side by side in all lanes of this processor: the
/// results equal chain().
static u32 test_lanes() {
  Random random(2);
  u32 tried = 0;
  for (const Lanes lanes : {Lanes::kOne, Lanes::kAvx2, Lanes::kAvx512}) {
    if (!has_lanes(lanes)) continue;
    tried += 1;
    for (u32 block_size = 1; block_size <= 40; ++block_size) {
      for (u32 count = 0; count <= 13; ++count) {
        const Key seed{random.next(), random.next()};
        std::vector<std::vector<std::int32_t>> tokens(count, std::vector<std::int32_t>(block_size));
        std::vector<std::vector<Key>> hashes(count, std::vector<Key>(2));
        std::vector<Unhashed> blocks;
        for (u32 i = 0; i < count; ++i) {
          for (std::int32_t& token : tokens[i]) token = static_cast<std::int32_t>(random.next() >> 33);
          hashes[i][0] = {random.next(), random.next()};
          blocks.push_back({tokens[i].data(), hashes[i].data()});
        }
        const std::vector<std::vector<Key>> before = hashes;
        hash_blocks(lanes, seed, block_size, {blocks.data(), count});
        for (u32 i = 0; i < count; ++i) {
          Key wanted;
          chain(seed, before[i][0], tokens[i].data(), block_size, 1, &wanted);
          EXPECT(hashes[i][0] == before[i][0] && hashes[i][1] == wanted, "lanes %u, block %u of %u, block size %u",
                 static_cast<u32>(lanes), i, count, block_size);
        }
        std::vector<std::int32_t> prompt;
        for (const auto& own : tokens) prompt.insert(prompt.end(), own.begin(), own.end());
        std::vector<Key> got(count + 1, seed), wanted(count + 1, seed);
        hash_chain(lanes, seed, block_size, prompt.data(), count, got.data());
        chain(seed, seed, prompt.data(), block_size, count, wanted.data() + 1);
        EXPECT(got == wanted, "lanes %u, a chain of %u blocks, block size %u", static_cast<u32>(lanes), count, block_size);
      }
    }
  }
  return tried;
}

int main() {
  test_vectors();
  test_chain();
  test_root();
  const u32 lanes = test_lanes();
  std::printf("hash: SipHash-1-3 as a plain one that 65 published vectors prove, chains of block sizes 1 to 40, roots, %u of 3 "
              "kinds of lanes\n", lanes);
  return 0;
}
