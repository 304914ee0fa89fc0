#include "configuration.h"

namespace blockstep {
namespace {

/// The key of the block hash: 16 bytes, little endian.
Key read_seed(const Call& call, napi_value value) {
  const Span<void> seed = call.typed_array(value, "hashSeed", napi_uint8_array, "a Uint8Array");
  if (seed.size != 16) throw Error{kBadArg, "hashSeed must be 16 bytes long, got " + std::to_string(seed.size)};
  const u8* bytes = static_cast<const u8*>(seed.data);
  Key key{0, 0};
  for (u32 i = 0; i < 8; ++i) {
    key.lo |= u64{bytes[i]} << (8 * i);
    key.hi |= u64{bytes[8 + i]} << (8 * i);
  }
  return key;
}

}  // namespace

HostConfig read_configuration(const Call& call, napi_value object) {
  if (!call.is_object(object)) call.refuse("config", "an object", object);
  const auto integer = [&](const char* name, u32 min, u32 max) {
    return call.check_integer(call.property(object, name), name, min, max);
  };
  HostConfig config{};
  config.pool.num_blocks = integer("numBlocks", 2, kMaxBlocks);
  config.block_size = integer("blockSize", 1, 1u << 16);
  config.pool.num_rows = integer("numRows", 1, kMaxRows);
  config.pool.max_blocks_per_row = integer("maxBlocksPerRow", 1, kMaxBlocks);
  config.max_entries = integer("maxEntries", 1, 1u << 20);
  config.num_frames = integer("numFrames", 1, 64);
  config.pending_capacity = integer("pendingCapacity", 1, 1u << 24);
  config.lookahead = integer("lookahead", 0, 1u << 16);
  config.max_model_len = integer("maxModelLen", 1, kMaxTokens - 1);
  config.caching = call.check_boolean(call.property(object, "enablePrefixCaching"), "enablePrefixCaching");
  config.seed = read_seed(call, call.property(object, "hashSeed"));
  if (u64{config.pool.max_blocks_per_row} * config.block_size < config.max_model_len) {
    throw Error{kBadArg, "maxBlocksPerRow * blockSize must be at least maxModelLen, got " +
                             std::to_string(config.pool.max_blocks_per_row) + " * " +
                             std::to_string(config.block_size) + " and " + std::to_string(config.max_model_len)};
  }
  return config;
}

Exchange read_exchange(const Call& call, napi_value value, const HostConfig& config) {
  bool is = false;
  if (napi_is_arraybuffer(call.env, value, &is) != napi_ok || !is) {
    call.refuse("exchange", "an ArrayBuffer that is not shared", value);
  }
  // Node-API cannot tell a resizable buffer. If somebody shadowed the property, the size check of every call is left.
  napi_value resizable = call.property(value, "resizable");
  if (napi_get_value_bool(call.env, resizable, &is) == napi_ok && is) {
    throw Error{kBadArg, "exchange must be an ArrayBuffer of fixed length"};
  }
  require_ok(napi_is_detached_arraybuffer(call.env, value, &is));
  if (is) throw Error{kDetached, "exchange is a detached ArrayBuffer"};
  void* data;
  std::size_t bytes;
  require_ok(napi_get_arraybuffer_info(call.env, value, &data, &bytes));
  const u64 words = Exchange::words_needed(config.pending_capacity, config.num_frames, config.max_entries);
  if (bytes != 4 * words) {
    throw Error{kBadArg, "exchange must have " + std::to_string(4 * words) + " bytes for this configuration, got " +
                             std::to_string(bytes)};
  }
  return Exchange(static_cast<std::int32_t*>(data), config.pending_capacity, config.max_entries);
}

}  // namespace blockstep
