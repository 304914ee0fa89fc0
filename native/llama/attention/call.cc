#include "call.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace blockstep::llama {
namespace {

bool read_stored(api::ggml_type type, Stored& stored) {
  switch (type) {
    case api::GGML_TYPE_F32:
      stored = Stored::kF32;
      return true;
    case api::GGML_TYPE_F16:
      stored = Stored::kF16;
      return true;
    case api::GGML_TYPE_Q8_0:
      stored = Stored::kQ8;
      return true;
    default:
      return false;
  }
}

/// Bytes of a number, or of a block of numbers.
std::size_t unit_of(Stored stored) { return stored == Stored::kF32 ? 4 : stored == Stored::kF16 ? 2 : 34; }

bool fits(int64_t size, Stored stored) {
  return size > 0 && size <= kMostSize && size % (stored == Stored::kQ8 ? 32 : 16) == 0;
}

Cells cells_of(const api::ggml_tensor& tensor) {
  return {static_cast<const char*>(tensor.data), static_cast<int64_t>(tensor.nb[1]), static_cast<int64_t>(tensor.nb[2])};
}

}  // namespace

bool read_call(const api::ggml_tensor& op, AttentionCall& call) {
  const api::ggml_tensor *q = op.src[0], *k = op.src[1], *v = op.src[2], *mask = op.src[3], *sinks = op.src[4];
  if (op.op != api::GGML_OP_FLASH_ATTN_EXT || q == nullptr || k == nullptr || v == nullptr || mask == nullptr) return false;
  float options[3];  // scale, bias of ALiBi, cap
  std::memcpy(options, op.op_params, sizeof options);
  if (options[1] != 0 || op.type != api::GGML_TYPE_F32 || q->type != api::GGML_TYPE_F32 || mask->type != api::GGML_TYPE_F16) return false;
  if (k->type != v->type || !read_stored(k->type, call.stored)) return false;
  // Requires one cache for all texts, and one mask for all heads.
  if (q->ne[3] != 1 || k->ne[3] != 1 || v->ne[3] != 1 || mask->ne[2] != 1 || mask->ne[3] != 1) return false;
  if (q->nb[0] != sizeof(float) || op.nb[0] != sizeof(float) || mask->nb[0] != sizeof(uint16_t)) return false;
  if (k->nb[0] != unit_of(call.stored) || v->nb[0] != unit_of(call.stored)) return false;
  if (q->ne[0] != k->ne[0] || !fits(k->ne[0], call.stored) || !fits(v->ne[0], call.stored)) return false;
  if (k->ne[1] != v->ne[1] || mask->ne[0] < k->ne[1] || mask->ne[1] < q->ne[1]) return false;
  if (k->ne[2] != v->ne[2] || k->ne[2] <= 0 || q->ne[2] % k->ne[2] != 0 || q->ne[2] / k->ne[2] > kMostLines) return false;
  if (op.ne[0] != v->ne[0] || op.ne[1] != q->ne[2] || op.ne[2] != q->ne[1]) return false;
  if (op.nb[2] != op.nb[1] * static_cast<std::size_t>(op.ne[1])) return false;
  if (sinks != nullptr && (sinks->type != api::GGML_TYPE_F32 || sinks->ne[0] != q->ne[2])) return false;
  call.q = static_cast<const char*>(q->data);
  call.q_row = static_cast<int64_t>(q->nb[1]);
  call.q_head = static_cast<int64_t>(q->nb[2]);
  call.k = cells_of(*k);
  call.v = cells_of(*v);
  call.mask = static_cast<const char*>(mask->data);
  call.mask_row = static_cast<int64_t>(mask->nb[1]);
  call.sinks = sinks == nullptr ? nullptr : static_cast<const float*>(sinks->data);
  call.out = static_cast<char*>(op.data);
  call.out_head = static_cast<int64_t>(op.nb[1]);
  call.key_size = static_cast<int>(k->ne[0]);
  call.value_size = static_cast<int>(v->ne[0]);
  call.heads = static_cast<int>(q->ne[2]);
  call.kv_heads = static_cast<int>(k->ne[2]);
  call.group = call.heads / call.kv_heads;
  call.rows = static_cast<int>(q->ne[1]);
  call.cells = k->ne[1];
  call.cap = options[2];
  call.scale = options[2] == 0 ? options[0] : options[0] / options[2];
  return true;
}

Tiles::Tiles(const AttentionCall& call, int threads) : call_(call) {
  const int group = call.group;
  rows_ = std::min(kMostLines / group, call.rows);
  // Smaller tiles, and separate heads of a group, are better than threads without work.
  while (rows_ > 8 && (call.rows + rows_ - 1) / rows_ * call.kv_heads < 2 * threads) rows_ = (rows_ + 1) / 2;
  tiles_ = (call.rows + rows_ - 1) / rows_;
  const int items = tiles_ * call.kv_heads;
  heads_ = group / std::min(group, (threads + items - 1) / items);
  parts_ = (group + heads_ - 1) / heads_;
}

Tile Tiles::tile(int number) const {
  const int index = number / (call_.kv_heads * parts_);
  const int part = number % parts_;
  const int kv_head = number / parts_ % call_.kv_heads;
  return {index,
          index * rows_,
          std::min(rows_, call_.rows - index * rows_),
          kv_head,
          kv_head * call_.group + part * heads_,
          std::min(heads_, call_.group - part * heads_)};
}

float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t rest = half & 0x3ff;
  if (exponent == 0) {
    const float small = static_cast<float>(rest) * 0x1p-24f;
    return sign == 0 ? small : -small;
  }
  return std::bit_cast<float>(sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | rest << 13);
}

float* Numbers::reserve(std::size_t count) {
  constexpr std::size_t kLine = 64;
  if (count_ < count) {
    count_ = 0;
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(count * sizeof(float) + kLine);
    void* at = bytes_.get();
    std::size_t room = count * sizeof(float) + kLine;
    first_ = static_cast<float*>(std::align(kLine, count * sizeof(float), at, room));
    count_ = count;
  }
  return first_;
}

}  // namespace blockstep::llama
