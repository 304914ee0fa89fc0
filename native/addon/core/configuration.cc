#include "configuration.h"

namespace blockstep {
namespace {

/// The key of the block hash: 16 bytes, little endian.
Key read_seed(Napi::Value value) {
  const Span<u8> seed = Call::typed_array<u8>(value, "hashSeed", napi_uint8_array, "a Uint8Array");
  if (seed.size != 16) throw Error{kBadArg, "hashSeed must be 16 bytes long, got " + std::to_string(seed.size)};
  Key key{0, 0};
  for (u32 i = 0; i < 8; ++i) {
    key.lo |= u64{seed.data[i]} << (8 * i);
    key.hi |= u64{seed.data[8 + i]} << (8 * i);
  }
  return key;
}

/// Absent: the host.
Authority read_authority(Napi::Value value) {
  if (value.IsUndefined()) return Authority::kHost;
  const std::u16string name = value.IsString() ? value.As<Napi::String>().Utf16Value() : u"";
  if (name == u"host") return Authority::kHost;
  if (name == u"device") return Authority::kDevice;
  Call::refuse("authority", "host or device", value);
}

/// Absent: nothing.
KvReport read_kv_events(Napi::Value value) {
  if (value.IsUndefined()) return KvReport::kNothing;
  const std::u16string name = value.IsString() ? value.As<Napi::String>().Utf16Value() : u"";
  if (name == u"off") return KvReport::kNothing;
  if (name == u"new") return KvReport::kNew;
  if (name == u"all") return KvReport::kAll;
  Call::refuse("kvEvents", "off, new or all", value);
}

}  // namespace

HostConfig read_configuration(Napi::Value value) {
  if (value.Type() != napi_object) Call::refuse("config", "an object", value);
  const auto integer = [&](const char* name, u32 min, u32 max) {
    return Call::check_integer(read_property(value, name), name, min, max);
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
  config.caching = Call::check_boolean(read_property(value, "enablePrefixCaching"), "enablePrefixCaching");
  config.seed = read_seed(read_property(value, "hashSeed"));
  config.authority = read_authority(read_property(value, "authority"));
  config.kv_events = read_kv_events(read_property(value, "kvEvents"));
  if (config.kv_events != KvReport::kNothing && config.authority == Authority::kDevice) {
    throw Error{kBadArg, "kvEvents must be off where the GPU decides, because the host tells them"};
  }
  if (u64{config.pool.max_blocks_per_row} * config.block_size < config.max_model_len) {
    throw Error{kBadArg, "maxBlocksPerRow * blockSize must be at least maxModelLen, got " +
                             std::to_string(config.pool.max_blocks_per_row) + " * " +
                             std::to_string(config.block_size) + " and " + std::to_string(config.max_model_len)};
  }
  return config;
}

Exchange read_exchange(Napi::Value value, const HostConfig& config) {
  const u64 bytes = 4 * Exchange::words_needed(config.pending_capacity, config.num_frames, config.max_entries);
  Napi::ArrayBuffer buffer = Call::fixed_buffer(value, "exchange", bytes);
  return Exchange(static_cast<std::int32_t*>(buffer.Data()), config.pending_capacity, config.max_entries);
}

}  // namespace blockstep
