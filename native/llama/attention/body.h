// The kernel, for lanes of any width. Each body includes this file once, in its own namespace,
// after defining:
//   BODY_FN, BODY_INLINE  the prefix of a function of the body, and of an always inlined function
//   Lanes                 V, a vector of `kWidth` numbers, and its operations; `kRows` and
//                         `kColumns`, the lines and vectors that fit into the registers together
// It has no lambdas, because these would be compiled for another processor.

/// e to the power of x. Numbers below -87 count as -87. Errors are less than 2 units in the last
/// place.
BODY_INLINE Lanes::V power(Lanes::V x) {
  // This order of the arguments keeps NaNs.
  x = Lanes::max(Lanes::all(-87), x);
  const Lanes::V n = Lanes::round(Lanes::mul(x, Lanes::all(1.44269504088896341f)));
  Lanes::V r = Lanes::fma(n, Lanes::all(-0.693359375f), x);
  r = Lanes::fma(n, Lanes::all(2.12194440e-4f), r);
  Lanes::V y = Lanes::all(1.9875691500e-4f);
  y = Lanes::fma(y, r, Lanes::all(1.3981999507e-3f));
  y = Lanes::fma(y, r, Lanes::all(8.3334519073e-3f));
  y = Lanes::fma(y, r, Lanes::all(4.1665795894e-2f));
  y = Lanes::fma(y, r, Lanes::all(1.6666665459e-1f));
  y = Lanes::fma(y, r, Lanes::all(5.0000001201e-1f));
  y = Lanes::fma(Lanes::mul(r, r), y, Lanes::add(r, Lanes::all(1)));
  return Lanes::mul(y, Lanes::power_of_two(n));
}

/// The working memory of a thread.
struct Work {
  Reads reads;
  Numbers q, out, keys, values, scores;
  float most[kMostLines], sum[kMostLines];  // of each line, so far
  float by[kMostLines];                     // factor of `out` of a line of the group
  int lines[kMostLines];                    // index of the group's lines in the tile
  uint64_t lines_read[kMostLines];          // cells of the group that each line reads
};

template <Stored kStored>
BODY_INLINE Lanes::V load_stored(const char* data, int at) {
  if constexpr (kStored == Stored::kF32) return Lanes::load(reinterpret_cast<const float*>(data) + at);
  if constexpr (kStored == Stored::kF16) return Lanes::load(reinterpret_cast<const uint16_t*>(data) + at);
  // A block is a scale, followed by 32 numbers of 8 bits.
  const char* block = data + at / 32 * 34;
  uint16_t scale;
  __builtin_memcpy(&scale, block, sizeof scale);
  return Lanes::mul(Lanes::load(reinterpret_cast<const int8_t*>(block + 2 + at % 32)), Lanes::all(half_to_float(scale)));
}

/// keys[number][cell of the group]: the cells side by side, padded to a multiple of the width.
template <Stored kStored>
BODY_INLINE void pack_keys(float* keys, const Cells& cells, const int32_t* at, int count, int size, int kv_head) {
  const char* data = cells.data + kv_head * cells.head;
  for (int j = 0; j < count; j += Lanes::kWidth) {
    const char* from[Lanes::kWidth];
    for (int i = 0; i < Lanes::kWidth; i++) from[i] = data + at[j + i < count ? j + i : count - 1] * cells.cell;
    for (int d = 0; d < size; d += Lanes::kWidth) {
      Lanes::V v[Lanes::kWidth];
      for (int i = 0; i < Lanes::kWidth; i++) v[i] = load_stored<kStored>(from[i], d);
      Lanes::transpose(v);
      for (int i = 0; i < Lanes::kWidth; i++) Lanes::store(keys + (d + i) * kBlock + j, v[i]);
    }
  }
}

/// values[cell of the group][number].
template <Stored kStored>
BODY_INLINE void pack_values(float* values, const Cells& cells, const int32_t* at, int count, int size, int kv_head) {
  const char* data = cells.data + kv_head * cells.head;
  for (int j = 0; j < count; j++)
    for (int d = 0; d < size; d += Lanes::kWidth) Lanes::store(values + j * size + d, load_stored<kStored>(data + at[j] * cells.cell, d));
}

/// kAdds: c[lines[i]] = by[i] * c[lines[i]] + a[i] x b; else c[i] = a[lines[i]] x b. Each number is
/// summed up in the order of the depth.
template <int kRows, int kColumns, bool kAdds>
BODY_INLINE void multiply_part(float* c, int c_line, const float* a, int a_line, const float* b, int b_line, int depth, const int* lines, const float* by) {
  Lanes::V sum[kRows][kColumns];
  const float* from[kRows];
  float* to[kRows];
  for (int i = 0; i < kRows; i++) {
    from[i] = a + (kAdds ? i : lines[i]) * a_line;
    to[i] = c + (kAdds ? lines[i] : i) * c_line;
    for (int r = 0; r < kColumns; r++)
      sum[i][r] = kAdds ? Lanes::mul(Lanes::load(to[i] + r * Lanes::kWidth), Lanes::all(by[i])) : Lanes::all(0);
  }
  for (int k = 0; k < depth; k++) {
    Lanes::V own[kColumns];
    for (int r = 0; r < kColumns; r++) own[r] = Lanes::load(b + k * b_line + r * Lanes::kWidth);
    for (int i = 0; i < kRows; i++) {
      const Lanes::V each = Lanes::all(from[i][k]);
      for (int r = 0; r < kColumns; r++) sum[i][r] = Lanes::fma(each, own[r], sum[i][r]);
    }
  }
  for (int i = 0; i < kRows; i++)
    for (int r = 0; r < kColumns; r++) Lanes::store(to[i] + r * Lanes::kWidth, sum[i][r]);
}

template <int kColumns, bool kAdds>
BODY_INLINE void multiply_columns(float* c, int c_line, const float* a, int a_line, const float* b, int b_line, int depth, int count, const int* lines, const float* by) {
  int i = 0;
  for (; i + Lanes::kRows <= count; i += Lanes::kRows)
    multiply_part<Lanes::kRows, kColumns, kAdds>(kAdds ? c : c + i * c_line, c_line, kAdds ? a + i * a_line : a, a_line, b, b_line, depth, lines + i, by + i);
  for (; i + 2 <= count; i += 2)
    multiply_part<2, kColumns, kAdds>(kAdds ? c : c + i * c_line, c_line, kAdds ? a + i * a_line : a, a_line, b, b_line, depth, lines + i, by + i);
  for (; i < count; i++)
    multiply_part<1, kColumns, kAdds>(kAdds ? c : c + i * c_line, c_line, kAdds ? a + i * a_line : a, a_line, b, b_line, depth, lines + i, by + i);
}

/// Like `multiply_part`, for `count` lines and `width` columns, rounded up to the lanes' width.
template <bool kAdds>
BODY_FN void multiply(float* c, int c_line, const float* a, int a_line, const float* b, int b_line, int depth, int count, int width, const int* lines, const float* by) {
  int column = 0;
  const int end = (width + Lanes::kWidth - 1) / Lanes::kWidth * Lanes::kWidth;
  if constexpr (Lanes::kColumns >= 4)
    for (; column + 4 * Lanes::kWidth <= end; column += 4 * Lanes::kWidth)
      multiply_columns<4, kAdds>(c + column, c_line, a, a_line, b + column, b_line, depth, count, lines, by);
  for (; column + 2 * Lanes::kWidth <= end; column += 2 * Lanes::kWidth)
    multiply_columns<2, kAdds>(c + column, c_line, a, a_line, b + column, b_line, depth, count, lines, by);
  for (; column < end; column += Lanes::kWidth)
    multiply_columns<1, kAdds>(c + column, c_line, a, a_line, b + column, b_line, depth, count, lines, by);
}

/// The lanes of a line, from `at` on, that the line reads.
BODY_INLINE uint32_t lanes_of(uint64_t reads, int at) {
  return static_cast<uint32_t>(reads >> at) & static_cast<uint32_t>((uint64_t{1} << Lanes::kWidth) - 1);
}

/// Applies the changes to individual scores: a cap, and numbers in the mask.
BODY_FN void change_scores(const AttentionCall& o, float* line, const int32_t* cells, int count, int row, bool has_biases) {
  if (o.cap != 0)
    for (int j = 0; j < count; j++) line[j] = o.cap * std::tanh(line[j]);
  if (!has_biases) return;
  const auto* mask = reinterpret_cast<const uint16_t*>(o.mask + row * o.mask_row);
  for (int j = 0; j < count; j++)
    if (mask[cells[j]] != kNever) line[j] += half_to_float(mask[cells[j]]);
}

/// Turns scores of a line into weights, 0 for cells that the line does not read. Updates `most` and
/// `sum` of the line. `by` is an output.
BODY_FN void weigh(float* line, int count, uint64_t reads, float* most, float* sum, float* by) {
  const int end = (count + Lanes::kWidth - 1) / Lanes::kWidth * Lanes::kWidth;
  Lanes::V top = Lanes::all(-INFINITY);
  for (int j = 0; j < end; j += Lanes::kWidth)
    top = Lanes::max(top, Lanes::choose(lanes_of(reads, j), Lanes::load(line + j), Lanes::all(-INFINITY)));
  const float highest = Lanes::highest(top);
  const float next = highest > *most ? highest : *most;
  *by = next == *most ? 1 : std::exp(*most - next);
  *most = next;
  for (int j = 0; j < end; j += Lanes::kWidth) {
    const Lanes::V weight = power(Lanes::sub(Lanes::load(line + j), Lanes::all(next)));
    Lanes::store(line + j, Lanes::choose(lanes_of(reads, j), weight, Lanes::all(0)));
  }
  // The weights are summed up side by side in the order of the line's reads, independent of other
  // cells of the group between them.
  const float* own = line;
  alignas(64) float packed[kBlock];
  if ((reads & (reads + 1)) != 0) {
    int n = 0;
    for (uint64_t rest = reads; rest != 0; rest &= rest - 1) packed[n++] = line[__builtin_ctzll(rest)];
    for (; n < kBlock; n++) packed[n] = 0;
    own = packed;
  }
  const int num_own = __builtin_popcountll(reads);
  Lanes::V total = Lanes::all(0);
  for (int j = 0; j < num_own; j += Lanes::kWidth) total = Lanes::add(total, Lanes::load(own + j));
  *sum = *sum * *by + Lanes::sum(total);
}

/// Computes a group of cells for the rows that read them.
template <Stored kStored>
BODY_INLINE void attend_group(const AttentionCall& o, Work& w, const Tile& tile, const ReadGroup& group) {
  const int32_t* cells = &w.reads.cells[static_cast<std::size_t>(group.first_cell)];
  const int n = group.num_cells;
  int count = 0;
  for (int i = 0; i < group.num_rows; i++) {
    const RowRead& row = w.reads.rows[static_cast<std::size_t>(group.first_row + i)];
    for (int h = 0; h < tile.heads; h++, count++) {
      w.lines[count] = row.row * tile.heads + h;
      w.lines_read[count] = row.reads;
    }
  }
  float *keys = w.keys.reserve(0), *values = w.values.reserve(0), *scores = w.scores.reserve(0);
  pack_keys<kStored>(keys, o.k, cells, n, o.key_size, tile.kv_head);
  multiply<false>(scores, kBlock, w.q.reserve(0), o.key_size, keys, kBlock, o.key_size, count, n, w.lines, w.by);
  for (int i = 0; i < count; i++) {
    float* line = scores + i * kBlock;
    const int m = w.lines[i];
    if (o.cap != 0 || w.reads.has_biases) change_scores(o, line, cells, n, tile.first + m / tile.heads, w.reads.has_biases);
    weigh(line, n, w.lines_read[i], &w.most[m], &w.sum[m], &w.by[i]);
  }
  pack_values<kStored>(values, o.v, cells, n, o.value_size, tile.kv_head);
  multiply<true>(w.out.reserve(0), o.value_size, scores, kBlock, values, o.value_size, n, count, o.value_size, w.lines, w.by);
}

template <Stored kStored>
BODY_FN void attend_tile(const AttentionCall& o, Work& w, const Tile& tile) {
  float *q = w.q.reserve(0), *out = w.out.reserve(0);
  for (int m = 0; m < tile.rows * tile.heads; m++) {
    const auto* from = reinterpret_cast<const float*>(o.q + (tile.first + m / tile.heads) * o.q_row + (tile.first_head + m % tile.heads) * o.q_head);
    for (int d = 0; d < o.key_size; d += Lanes::kWidth)
      Lanes::store(q + m * o.key_size + d, Lanes::mul(Lanes::load(from + d), Lanes::all(o.scale)));
    for (int d = 0; d < o.value_size; d += Lanes::kWidth) Lanes::store(out + m * o.value_size + d, Lanes::all(0));
    w.most[m] = -INFINITY;
    w.sum[m] = 0;
  }
  for (const ReadGroup& group : w.reads.groups) attend_group<kStored>(o, w, tile, group);
  for (int m = 0; m < tile.rows * tile.heads; m++) {
    const int head = tile.first_head + m % tile.heads;
    float by = 1;
    if (o.sinks != nullptr) {
      const float top = o.sinks[head] > w.most[m] ? o.sinks[head] : w.most[m];
      by = std::exp(w.most[m] - top);
      w.sum[m] = w.sum[m] * by + std::exp(o.sinks[head] - top);
    }
    by = w.sum[m] == 0 ? 0 : by / w.sum[m];
    auto* to = reinterpret_cast<float*>(o.out + (static_cast<int64_t>(tile.first + m / tile.heads) * o.heads + head) * o.out_head);
    for (int d = 0; d < o.value_size; d += Lanes::kWidth) Lanes::store(to + d, Lanes::mul(Lanes::load(out + m * o.value_size + d), Lanes::all(by)));
  }
}

BODY_FN void attend(const AttentionCall& o, int thread, int threads) {
  static thread_local Work w;
  w.q.reserve(static_cast<std::size_t>(kMostLines * o.key_size));
  w.out.reserve(static_cast<std::size_t>(kMostLines * o.value_size));
  w.keys.reserve(static_cast<std::size_t>(kBlock * o.key_size));
  w.values.reserve(static_cast<std::size_t>(kBlock * o.value_size));
  w.scores.reserve(static_cast<std::size_t>(kMostLines * kBlock));
  const Tiles tiles(o, threads);
  int read = -1;
  for (int number = thread; number < tiles.count(); number += threads) {
    const Tile tile = tiles.tile(number);
    if (read != tile.index) w.reads.read(o, tile.first, tile.rows);
    read = tile.index;
    if (o.stored == Stored::kF16) attend_tile<Stored::kF16>(o, w, tile);
    else if (o.stored == Stored::kF32) attend_tile<Stored::kF32>(o, w, tile);
    else attend_tile<Stored::kQ8>(o, w, tile);
  }
}
