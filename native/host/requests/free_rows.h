// FreeRows: the rows of the KV slot table that are not in use.
#pragma once

#include <bit>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep {

/// The set of free rows, as a bitmap. The lowest row is given first, so that the rows in use stay
/// dense.
class FreeRows {
 public:
  explicit FreeRows(u32 num_rows) : words_((num_rows + 63) / 64, ~u64{0}) {
    if (num_rows % 64) words_.back() = (u64{1} << (num_rows % 64)) - 1;
  }

  /// The lowest free row, or kNone. It stays free until take().
  u32 lowest() const {
    for (u32 w = first_; w < words_.size(); ++w) {
      if (words_[w]) return w * 64 + static_cast<u32>(std::countr_zero(words_[w]));
    }
    return kNone;
  }

  /// The lowest free row from `from` on, or kNone.
  u32 lowest_from(u32 from) const {
    for (u32 w = from / 64; w < words_.size(); ++w) {
      const u64 rows = w == from / 64 ? words_[w] & ~u64{0} << (from % 64) : words_[w];
      if (rows) return w * 64 + static_cast<u32>(std::countr_zero(rows));
    }
    return kNone;
  }

  /// Removes the row that lowest() returned from the set.
  void take(u32 row) {
    words_[row / 64] &= ~(u64{1} << (row % 64));
    first_ = row / 64;
  }

  void put(u32 row) {
    words_[row / 64] |= u64{1} << (row % 64);
    if (row / 64 < first_) first_ = row / 64;
  }

  bool contains(u32 row) const { return words_[row / 64] >> (row % 64) & 1; }

 private:
  std::vector<u64> words_;
  u32 first_ = 0;  // all words before this one are 0
};

}  // namespace blockstep
