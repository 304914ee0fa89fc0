#include "reads.h"

#include <bit>
#include <cstring>

namespace blockstep::llama {
namespace {

constexpr uint64_t kAll = ~uint64_t{0};
constexpr uint64_t kFourNever = 0xfc00fc00fc00fc00;
/// Cost of converting a cell's keys and values, in units of computed lines (a row's head) over the
/// cell.
constexpr int kConversion = 6;

/// Whether a row reads none of the next `kStride` cells, like most cells of a full cache.
constexpr int kStride = 256;
bool reads_none(const uint16_t* mask) {
  uint64_t four[kStride / 4];
  std::memcpy(four, mask, sizeof four);
  uint64_t differs = 0;
  for (const uint64_t each : four) differs |= each ^ kFourNever;
  return differs == 0;
}

/// The bits of `value` at the positions of `places`, side by side.
uint64_t gather(uint64_t value, uint64_t places) {
  if (places == 0) return 0;
  const int low = std::countr_zero(places);
  const uint64_t run = places >> low;
  if ((run & (run + 1)) == 0) return value >> low & run;
  uint64_t gathered = 0;
  for (int i = 0; places != 0; places &= places - 1, i++) gathered |= (value >> std::countr_zero(places) & 1) << i;
  return gathered;
}

}  // namespace

void Reads::read(const AttentionCall& call, int first, int rows_of_tile) {
  groups.clear();
  cells.clear();
  rows.clear();
  words_.clear();
  blocks_.clear();
  has_biases = false;
  for (int row = 0; row < rows_of_tile; row++) cut(call, first, row);
  sort(static_cast<std::size_t>((call.cells + 63) / 64));
  for (std::size_t at = 0; at < sorted_.size();) {
    const int32_t index = words_[static_cast<std::size_t>(sorted_[at].first)].index;
    std::size_t end = at + 1;
    while (end < sorted_.size() && words_[static_cast<std::size_t>(sorted_[end].first)].index == index) end++;
    group(&sorted_[at], static_cast<int>(end - at), call.group);
    at = end;
  }
}

/// Cuts the cells of a row into blocks.
void Reads::cut(const AttentionCall& call, int first, int row) {
  const auto* mask = reinterpret_cast<const uint16_t*>(call.mask + (first + row) * call.mask_row);
  int num_cells = kBlock;
  for (int64_t cell = 0; cell < call.cells; cell += 64) {
    const int64_t left = call.cells - cell;
    if (cell % kStride == 0 && left >= kStride && reads_none(mask + cell)) {
      cell += kStride - 64;
      continue;
    }
    const uint64_t bits = word(mask + cell, left < 64 ? static_cast<int>(left) : 64);
    if (bits == 0) continue;
    const int count = std::popcount(bits);
    if (num_cells + count > kBlock) {
      blocks_.push_back({row, static_cast<int32_t>(words_.size()), 0});
      num_cells = 0;
    }
    words_.push_back({static_cast<int32_t>(cell / 64), bits});
    blocks_.back().count++;
    num_cells += count;
  }
}

/// The cells among 64 that a row reads.
uint64_t Reads::word(const uint16_t* mask, int count) {
  uint64_t four[16];
  if (count == 64) {
    std::memcpy(four, mask, sizeof four);
    uint64_t differs = 0, any = 0;
    for (const uint64_t each : four) {
      differs |= each ^ kFourNever;
      any |= each;
    }
    if (differs == 0) return 0;
    if (any == 0) return kAll;
  }
  uint64_t bits = 0;
  for (int i = 0; i < count; i++) {
    bits |= static_cast<uint64_t>(mask[i] != kNever) << i;
    has_biases |= mask[i] != kNever && mask[i] != 0;
  }
  return bits;
}

/// Sorts the blocks by their first words, and those of one word by rows.
void Reads::sort(std::size_t num_words) {
  starts_.assign(num_words + 1, 0);
  for (const Block& block : blocks_) starts_[static_cast<std::size_t>(words_[static_cast<std::size_t>(block.first)].index) + 1]++;
  for (std::size_t i = 1; i <= num_words; i++) starts_[i] += starts_[i - 1];
  sorted_.resize(blocks_.size());
  for (const Block& block : blocks_) {
    const auto index = static_cast<std::size_t>(words_[static_cast<std::size_t>(block.first)].index);
    sorted_[static_cast<std::size_t>(starts_[index]++)] = block;
  }
}

/// Groups blocks that begin with the same word. A block joins the previous block if that is less
/// work.
void Reads::group(const Block* blocks, int count, int heads) {
  const auto work = [heads](int num_rows, int num_cells) { return (kConversion + num_rows * heads) * num_cells; };
  const auto size = [](const std::vector<Word>& words) {
    int sum = 0;
    for (const Word& each : words) sum += std::popcount(each.bits);
    return sum;
  };
  const auto begin = [this](const Block& block) {
    union_.assign(words_.begin() + block.first, words_.begin() + block.first + block.count);
    members_.assign(1, &block);
  };
  begin(blocks[0]);
  int together = size(union_);
  for (int i = 1; i < count; i++) {
    if (unite(blocks[i])) {
      const int num_rows = static_cast<int>(members_.size());
      int own = 0;
      for (int32_t w = 0; w < blocks[i].count; w++) own += std::popcount(words_[static_cast<std::size_t>(blocks[i].first + w)].bits);
      const int all = size(united_);
      if (all <= kBlock && work(num_rows + 1, all) <= work(num_rows, together) + work(1, own)) {
        union_.swap(united_);
        members_.push_back(&blocks[i]);
        together = all;
        continue;
      }
    }
    close(members_);
    begin(blocks[i]);
    together = size(union_);
  }
  close(members_);
}

/// Makes `united_` of `union_` and a block. @returns false if a group cannot hold both
bool Reads::unite(const Block& block) {
  const Word* own = &words_[static_cast<std::size_t>(block.first)];
  const Word* const end = own + block.count;
  united_.clear();
  std::size_t i = 0;
  while (i < union_.size() || own != end) {
    if (united_.size() >= kBlock) return false;
    if (own == end || (i < union_.size() && union_[i].index < own->index)) {
      united_.push_back(union_[i++]);
    } else if (i == union_.size() || own->index < union_[i].index) {
      united_.push_back(*own++);
    } else {
      united_.push_back({own->index, own->bits | union_[i].bits});
      i++;
      own++;
    }
  }
  return true;
}

/// Adds the group of `union_` and of the blocks in it.
void Reads::close(const std::vector<const Block*>& members) {
  ReadGroup added{static_cast<int32_t>(cells.size()), 0, static_cast<int32_t>(rows.size()), static_cast<int32_t>(members.size())};
  for (const Word& each : union_)
    for (uint64_t bits = each.bits; bits != 0; bits &= bits - 1) cells.push_back(64 * each.index + std::countr_zero(bits));
  added.num_cells = static_cast<int32_t>(cells.size()) - added.first_cell;
  for (const Block* block : members) {
    const Word* own = &words_[static_cast<std::size_t>(block->first)];
    const Word* const end = own + block->count;
    uint64_t reads = 0;
    int shift = 0;
    for (const Word& each : union_) {
      if (own != end && own->index == each.index) reads |= gather((own++)->bits, each.bits) << shift;
      shift += std::popcount(each.bits);
      if (shift >= 64) break;
    }
    rows.push_back({block->row, reads});
  }
  groups.push_back(added);
}

}  // namespace blockstep::llama
