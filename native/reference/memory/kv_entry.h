// KvEntry: represents the key and value of one token, on the host and on a GPU.
#pragma once

#include <cstdint>

#include "../../core/base/types.h"

namespace blockstep {

/// The entry of one token: everything that determines a real KV entry, and the request that wrote
/// it. In a group of states it is the state after the token: `hash` is a digest of all tokens up to
/// it.
struct alignas(16) KvEntry {
  u64 hash;   // hash of adapter, salt and all tokens up to and including this one
  u64 owner;  // handle of the request that wrote it; 0: never written
  std::int32_t token;
  u32 position;
  u32 generation;  // generation of the block (Possession) when the entry was written
  u32 group;       // KV cache group of the data; 0 without groups
};
static_assert(sizeof(KvEntry) == 32);

}  // namespace blockstep
