// AttentionCall: one FLASH_ATTN_EXT of llama.cpp that our kernel supports, in tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "../api/library.h"

namespace blockstep::llama {

/// How keys and values are stored.
enum class Stored { kF32, kF16, kQ8 };

/// Keys or values of all cells. Number d of head h in cell c is at data + c * cell + h * head.
struct Cells {
  const char* data;
  int64_t cell;  // bytes from one cell to the next
  int64_t head;  // bytes from one head to the next
};

/// Attention of `rows` tokens over `cells` cells.
struct AttentionCall {
  const char* q;              // [head][row][key_size] of F32
  int64_t q_row, q_head;      // bytes
  Cells k, v;
  Stored stored;
  const char* mask;           // [row][cell] of F16, added to a score; minus infinity: unread
  int64_t mask_row;           // bytes
  const float* sinks;         // [head] a score without a value; null: none
  char* out;                  // [row][head][value_size] of F32
  int64_t out_head;           // bytes
  int key_size, value_size;   // numbers of a head, multiples of 16
  int heads, kv_heads, group; // group = heads / kv_heads
  int rows;
  int64_t cells;
  float scale, cap;           // cap 0: none; else cap * tanh(s) of a score s, with 1 / cap in scale
};

/// Maximum of rows x heads computed at once, and of cells.
constexpr int kMostLines = 96;
constexpr int kBlock = 64;
/// The mask's value for a cell that a row does not read: minus infinity, as F16.
constexpr uint16_t kNever = 0xfc00;
/// Maximum size of a head.
constexpr int kMostSize = 576;

/// Reads a call. @returns false if the kernel does not support it
bool read_call(const api::ggml_tensor& op, AttentionCall& call);

/// Rows of a call, and heads of one group, that are computed together.
struct Tile {
  int index;                      // of its rows
  int first, rows;
  int kv_head, first_head, heads; // first_head: of all heads
};

/// A call in tiles, which threads take in turn: thread t of n takes tiles t, t + n and so on.
class Tiles {
 public:
  Tiles(const AttentionCall& call, int threads);
  int count() const { return tiles_ * call_.kv_heads * parts_; }
  Tile tile(int number) const;

 private:
  const AttentionCall& call_;
  int rows_, tiles_, parts_, heads_;
};

/// Converts a 16-bit value to F32.
float half_to_float(uint16_t half);

/// Numbers aligned to a cache line.
class Numbers {
 public:
  /// Makes room for `count` numbers, and does not keep earlier values. @throws std::bad_alloc
  float* reserve(std::size_t count);

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t count_ = 0;
  float* first_ = nullptr;
};

}  // namespace blockstep::llama
