// A list of KV cache groups in a JavaScript configuration.
#pragma once

#include "call.h"

namespace blockstep {

/// Calls `read(g, entry)` for each group of the list, and returns their number. Absent: none.
/// @throws Error kBadArg
template <class Read>
u32 read_group_list(Napi::Value value, const Read& read) {
  if (value.IsUndefined()) return 0;
  if (!value.IsArray()) Call::refuse("groups", "an array", value);
  const auto list = value.As<Napi::Array>();
  const u32 count = list.Length();
  if (count < 1 || count > kMaxGroups) {
    throw Error{kBadArg, "there must be from 1 to " + std::to_string(kMaxGroups) + " groups, got " + std::to_string(count)};
  }
  for (u32 g = 0; g < count; ++g) {
    const Napi::Value entry = list.Get(g);
    if (entry.Type() != napi_object) Call::refuse("groups", "a list of objects", entry);
    read(g, entry);
  }
  return count;
}

}  // namespace blockstep
