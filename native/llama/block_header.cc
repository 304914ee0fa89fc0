#include "block_header.h"

#include <bit>
#include <cstring>

namespace blockstep::llama {
namespace {

/// The last digits are the version of the format.
constexpr std::array<char, 8> kMagic = {'B', 'S', 'T', 'P', 'K', 'V', '0', '1'};
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
constexpr uint64_t kFactor = 0xc2b2ae3d27d4eb4f;

uint64_t mix(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kFactor, 31) * kOdd; }

/// A checksum of bytes. Four lanes that do not wait for each other read as fast as memory does.
uint64_t checksum(const uint8_t* bytes, std::size_t size, uint64_t seed) {
  uint64_t lanes[4] = {seed + kOdd, seed ^ kFactor, seed, ~seed};
  std::size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes + at, sizeof words);
    for (int lane = 0; lane < 4; lane++) lanes[lane] = mix(lanes[lane], words[lane]);
  }
  uint64_t sum = size;
  for (const uint64_t lane : lanes) sum = mix(sum ^ lane, lane);
  for (; at < size; at++) sum = mix(sum, bytes[at] + 1u);
  sum = (sum ^ (sum >> 29)) * kOdd;
  return sum ^ (sum >> 32);
}

uint64_t sum_of(const uint8_t* block, const BlockHeader& header) {
  BlockHeader own = header;
  own.checksum = 0;
  uint8_t front[sizeof own];
  std::memcpy(front, &own, sizeof own);
  return checksum(block + sizeof own, header.bytes, checksum(front, sizeof front, 0));
}

}  // namespace

void write_header(uint8_t* block, const BlockOrigin& origin, int32_t from, std::size_t bytes) {
  BlockHeader header{kMagic, origin, from, static_cast<uint32_t>(bytes), 0};
  header.checksum = sum_of(block, header);
  std::memcpy(block, &header, sizeof header);
}

CopyEnd check_header(const uint8_t* block, const BlockOrigin& origin, std::size_t bytes, int32_t block_size, BlockHeader& header) {
  std::memcpy(&header, block, sizeof header);
  if (header.magic != kMagic) return CopyEnd::kNoBlock;
  for (std::size_t i = 0; i < origin.size(); i++)
    if (header.origin[i] != origin[i]) return static_cast<CopyEnd>(static_cast<std::size_t>(CopyEnd::kLibrary) + i);
  // Except for the place, the rest is equal in every block of this origin.
  if (header.bytes != bytes || header.from < 0 || header.from % block_size != 0) return CopyEnd::kDamaged;
  return CopyEnd::kDone;
}

bool is_whole(const uint8_t* block, const BlockHeader& header) { return sum_of(block, header) == header.checksum; }

}  // namespace blockstep::llama
