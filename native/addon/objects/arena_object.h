// Block arenas as JavaScript objects. src/core/native/native-transfer.ts describes them.
#pragma once

#include "../../transfer/block_arena.h"
#include "../base/wrapped.h"

namespace blockstep {

template <>
struct WrapTraits<BlockArena> {
  static constexpr const char* kClass = "NativeArena";
  static constexpr const char* kWhat = "a native block arena";
  static WrapClass& of(Environment& home) { return home.arenas; }
};

/// The configuration of an arena or a lane. @throws Error kBadArg
inline void check_config(Napi::Value config) {
  if (config.Type() != napi_object) Call::refuse("config", "an object", config);
}
inline u32 read_integer(Napi::Value config, const char* name, u32 min, u32 max) {
  return Call::check_integer(read_property(config, name), name, min, max);
}

/// An arena on the host. Other processes can map it if the configuration has a `shareId`.
std::shared_ptr<BlockArena> allocate_host_arena(Napi::Value config, u32 num_blocks, u64 bytes_per_block);

void define_arena_class(Napi::Env env);

// addon.createArena() and attachArena().
Napi::Value create_arena(const Call& call);
Napi::Value attach_arena(const Call& call);

}  // namespace blockstep
