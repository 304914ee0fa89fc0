#include "configuration.h"

#include "../base/group_list.h"

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
  return static_cast<Authority>(Call::check_choice(value, "authority", {"host", "device"}));
}

/// Absent: at the tail.
u32 read_free_order(Napi::Value value) {
  return value.IsUndefined() ? 0 : Call::check_choice(value, "freeOrder", {"tail", "unhashedFirst"});
}

/// Absent: none.
KvReport read_kv_events(Napi::Value value) {
  if (value.IsUndefined()) return KvReport::kNothing;
  return static_cast<KvReport>(Call::check_choice(value, "kvEvents", {"off", "new", "all"}));
}

GroupType read_group_type(Napi::Value value) {
  return static_cast<GroupType>(
      Call::check_choice(value, "type", {"full", "sliding", "chunked", "mamba-none", "mamba-all", "mamba-align"}));
}

/// Absent: no groups. The scheduler has derived the groups from its options, so only values that
/// could break the core are checked here.
void read_groups(Napi::Value value, HostConfig& config) {
  const u32 count = read_group_list(value, [&](u32 g, Napi::Value entry) {
    const auto integer = [&](const char* name, u32 min, u32 max) {
      return Call::check_integer(read_property(entry, name), name, min, max);
    };
    const auto flag = [&](const char* name) { return Call::check_boolean(read_property(entry, name), name); };
    GroupConfig group{};
    group.type = read_group_type(read_property(entry, "type"));
    group.block_size = integer("blockSize", 1, kMaxTokens);
    group.window = integer("window", group.type == GroupType::kSliding ? 1 : 0, kMaxTokens);
    group.chunk = integer("chunk", group.type == GroupType::kChunked ? 1 : 0, kMaxTokens);
    group.spare_blocks = integer("spareBlocks", 0, 1u << 16);
    group.most_blocks = integer("mostBlocks", 0, kMaxTokens);
    group.spec = integer("spec", 0, g);
    group.eagle = flag("eagle");
    group.unsettled = read_property(entry, "unsettled").IsUndefined() ? 0 : integer("unsettled", 0, kMaxTokens);
    group.zeroed = flag("zeroed");
    if (group.block_size % config.block_size != 0) {
      throw Error{kBadArg, "the blockSize of a group must be a multiple of blockSize (" + std::to_string(config.block_size) +
                               "), got " + std::to_string(group.block_size)};
    }
    const u64 places = (u64{config.max_model_len} + group.block_size - 1) / group.block_size + group.spare_blocks;
    if (places > config.pool.max_blocks_per_row) {
      throw Error{kBadArg, "maxBlocksPerRow must be at least " + std::to_string(places) + " for group " +
                               std::to_string(g) + ", got " + std::to_string(config.pool.max_blocks_per_row)};
    }
    config.groups.push_back(group);
  });
  if (count == 0) return;
  if (u64{config.pool.num_rows} * count > kMaxRows) {
    throw Error{kBadArg, "numRows times the number of groups must be at most " + std::to_string(kMaxRows) +
                             ", got " + std::to_string(config.pool.num_rows) + " times " + std::to_string(count)};
  }
  config.pool.num_rows *= count;
  config.pool.num_groups = count;
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
  config.pool.unhashed_first = read_free_order(read_property(value, "freeOrder"));
  config.authority = read_authority(read_property(value, "authority"));
  config.kv_events = read_kv_events(read_property(value, "kvEvents"));
  const Napi::Value by_block = read_property(value, "kvEventsByBlock");
  config.kv_events_by_block = !by_block.IsUndefined() && Call::check_boolean(by_block, "kvEventsByBlock");
  if (config.kv_events != KvReport::kNothing && config.authority == Authority::kDevice) {
    throw Error{kBadArg, "kvEvents must be off where the GPU decides, got on: only a host that decides reports them"};
  }
  config.pool.num_kept = read_property(value, "keptBlocks").IsUndefined() ? 0 : integer("keptBlocks", 0, config.pool.num_blocks - 2);
  config.group_fixes = read_property(value, "groupFixes").IsUndefined() ? 0 : integer("groupFixes", 0, kCutAllFull | kShiftMasks | kChunkHits | kDropStates | kLoadNeeded | kPromptTails | kHoldAllHits);
  const Napi::Value retention = read_property(value, "retention");
  if (!retention.IsUndefined()) {
    config.retention = retention.IsNumber() ? integer("retention", 0, kMaxTokens)
                                            : kRetainAll - Call::check_choice(retention, "retention", {"all", "reachable"});
  }
  read_groups(read_property(value, "groups"), config);
  if (!config.groups.empty()) {
    if (config.authority == Authority::kDevice) throw Error{kBadArg, "authority must be host for a core with groups, got device"};
    return config;
  }
  if (u64{config.pool.max_blocks_per_row} * config.block_size < config.max_model_len) {
    throw Error{kBadArg, "maxBlocksPerRow * blockSize must be at least maxModelLen, got " +
                             std::to_string(config.pool.max_blocks_per_row) + " * " +
                             std::to_string(config.block_size) + " and " + std::to_string(config.max_model_len)};
  }
  return config;
}

Exchange read_exchange(Napi::Value value, const HostConfig& config) {
  const u64 bytes = 4 * Exchange::words_needed(config.pending_capacity, config.num_frames, config.max_entries, config.pool.num_groups);
  Napi::ArrayBuffer buffer = Call::fixed_buffer(value, "exchange", bytes);
  return Exchange(static_cast<std::int32_t*>(buffer.Data()), config.pending_capacity, config.max_entries,
                  config.pool.num_groups);
}

}  // namespace blockstep
