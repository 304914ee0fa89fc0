#include "block_copier.h"

#include <cstring>
#include <stdexcept>

#include "api/log.h"
#include "context.h"

namespace blockstep::llama {
namespace {

/// Bytes that llama.cpp writes for a sequence without cells, if it has one cache. They hold a magic
/// number, the sequence, the number of streams, and the number of cells. Several caches write more.
constexpr std::size_t kEmptyBytes = 16;

}  // namespace

BlockCopier::BlockCopier(const Library& library, api::llama_context* context, int spare, int block_size, const BlockOrigin& origin)
    : library_(library),
      context_(context),
      memory_(library.llama_get_memory(context)),
      spare_(spare),
      block_size_(block_size),
      origin_(origin),
      bytes_(measure()) {}

std::size_t BlockCopier::measure() const {
  if (library_.llama_state_seq_get_size(context_, spare_) != kEmptyBytes) return 0;
  std::size_t sizes[2];
  for (int position = 0; position < 2; position++) {
    api::llama_token token = 0;
    api::llama_pos at = position;
    int32_t count = 1;
    api::llama_seq_id sequence = spare_;
    api::llama_seq_id* list[] = {&sequence, nullptr};
    int8_t wanted = 0;
    const int status = library_.llama_decode(context_, {1, &token, nullptr, &at, &count, list, &wanted});
    if (status != 0) throw std::runtime_error(decode_failure(status));
    library_.llama_synchronize(context_);
    sizes[position] = library_.llama_state_seq_get_size(context_, spare_);
  }
  clear();
  // A second token adds its own bytes alone.
  const std::size_t token_bytes = sizes[1] - sizes[0];
  const std::size_t bytes = sizes[0] + static_cast<std::size_t>(block_size_ - 1) * token_bytes;
  return bytes > INT32_MAX - sizeof(BlockHeader) ? 0 : bytes;
}

int BlockCopier::place_of(const uint8_t* block) const {
  BlockHeader header;
  const CopyEnd end = check_header(block, origin_, bytes_, block_size_, header);
  return end == CopyEnd::kDone ? header.from : -static_cast<int>(end);
}

CopyEnd BlockCopier::save(int sequence, int from, uint8_t* block) const {
  const Log log;
  // A block that was saved here earlier must not be taken for this one if the copy fails.
  std::memset(block, 0, sizeof(BlockHeader));
  library_.llama_memory_seq_cp(memory_, sequence, spare_, from, from + block_size_);
  const std::size_t written =
      library_.llama_state_seq_get_size(context_, spare_) == bytes_
          ? library_.llama_state_seq_get_data(context_, block + sizeof(BlockHeader), bytes_, spare_)
          : 0;
  clear();
  if (written != bytes_) return CopyEnd::kLlama;
  write_header(block, origin_, from, bytes_);
  return CopyEnd::kDone;
}

CopyEnd BlockCopier::load(int sequence, int from, const uint8_t* block) const {
  const Log log;
  BlockHeader header;
  const CopyEnd end = check_header(block, origin_, bytes_, block_size_, header);
  if (end != CopyEnd::kDone) return end;
  if (header.from != from || !is_whole(block, header)) return CopyEnd::kDamaged;
  const bool is_read = library_.llama_state_seq_set_data(context_, block + sizeof header, bytes_, spare_) == bytes_ &&
                       library_.llama_memory_seq_pos_min(memory_, spare_) == from &&
                       library_.llama_memory_seq_pos_max(memory_, spare_) == from + block_size_ - 1;
  if (is_read) library_.llama_memory_seq_cp(memory_, spare_, sequence, from, from + block_size_);
  clear();
  return is_read ? CopyEnd::kDone : CopyEnd::kLlama;
}

}  // namespace blockstep::llama
