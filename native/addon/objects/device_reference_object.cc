#include "device_reference_object.h"

#include "../base/backend.h"
#include "reference_object.h"

namespace blockstep {
namespace {

/// Addresses of the arrays, in the order of Tables, then of GroupTables for each further KV cache
/// group. The caller guarantees that they are valid, like for every launch.
TablesOnDevice read_tables(const Call& call, u32 index, u32 num_lists) {
  const Span<u64> addresses = Call::typed_array<u64>(call[index], "tables", napi_biguint64_array, "a BigUint64Array");
  const u32 count = 6 + 2 * (num_lists - 1);
  if (addresses.size != count) {
    throw Error{kBadArg, "tables must be " + std::to_string(count) + " addresses, got " + std::to_string(addresses.size)};
  }
  for (u32 i = 0; i < count; ++i) {
    if (addresses.data[i] == 0) throw Error{kBadArg, "tables[" + std::to_string(i) + "] must be an address, got 0"};
  }
  const auto at = [&](u32 i) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(addresses.data[i])); };
  const auto words = [&](u32 i) { return static_cast<std::int32_t*>(at(i)); };
  const auto slots = [&](u32 i) { return static_cast<std::int64_t*>(at(i)); };
  TablesOnDevice tables{{slots(0), words(1), words(2), words(3), words(4), words(5)}, {{slots(0), words(5)}}};
  for (u32 g = 1; g < num_lists; ++g) tables.groups[g] = {slots(4 + 2 * g), words(5 + 2 * g)};
  return tables;
}

Napi::Value submit(const Call& call) {
  DeviceReference& reference = receiver<DeviceReference>(call);
  const void* io = Call::buffer(call[0], "io", step_io_bytes(reference.config()));
  const TablesOnDevice tables = read_tables(call, 1, reference.config().tables.num_lists());
  const Span<std::int32_t> known = call.int32_array(2, "known");
  const Span<std::int32_t> zeroed = call[3].IsUndefined() ? Span<std::int32_t>{nullptr, 0} : call.int32_array(3, "zeroed");
  reference.submit(io, tables, {known.data, known.size}, {zeroed.data, zeroed.size});
  return {};
}

Napi::Value drain(const Call& call) {
  DeviceReference& reference = receiver<DeviceReference>(call);
  return Napi::Boolean::New(call.env, reference.drain(Call::buffer(call[0], "io", step_io_bytes(reference.config()))));
}

Napi::Value adopt(const Call& call) {
  DeviceReference& reference = receiver<DeviceReference>(call);
  const u64 handle = Call::check_handle(call[0], "handle");
  const Span<std::int32_t> blocks = call.int32_array(1, "blocks");
  reference.adopt(handle, {blocks.data, blocks.size});
  return {};
}

Napi::Value stream(const Call& call) { return call.bigint(receiver<DeviceReference>(call).stream()); }

Napi::Value arena(const Call& call) {
  return Wrapped<BlockArena>::make(call.home, receiver<DeviceReference>(call).blocks(), 0);
}

Napi::Value memory(const Call& call) {
  const DeviceReference& reference = receiver<DeviceReference>(call);
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("arenaBytes", call.number(static_cast<double>(reference.arena_bytes()))),
      field("numSequences", call.number(reference.num_sequences())),
      field("pinnedBytes", call.number(static_cast<double>(reference.pinned_bytes()))),
  });
  return result;
}

}  // namespace

Napi::Value create_device_reference(const Call& call) {
  const ReferenceConfig config = read_reference_config(call[0]);
  std::shared_ptr<DeviceReference> reference = open_reference(config, read_device(call[1], "device"));
  const u64 bytes = reference->pinned_bytes();
  return Wrapped<DeviceReference>::make(call.home, std::move(reference), bytes);
}

void define_device_reference_class(Napi::Env env) {
  Wrapped<DeviceReference>::define(env, {
                                            method<submit>(env, "submit"),
                                            method<drain>(env, "drain"),
                                            method<adopt>(env, "adopt"),
                                            method<stream>(env, "stream"),
                                            method<arena>(env, "arena"),
                                            method<memory>(env, "memory"),
                                            method<dispose_receiver<DeviceReference>>(env, "dispose"),
                                        });
}

}  // namespace blockstep
