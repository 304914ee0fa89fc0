#include "device_tables.h"

#include "../base/backend.h"

namespace blockstep {
namespace {

Napi::Object array_object(const Call& call, const blockstep_array& array) {
  auto shape = Napi::Array::New(call.env, array.ndim);
  for (u32 i = 0; i < array.ndim; ++i) shape.Set(i, call.number(static_cast<double>(array.shape[i])));
  auto object = Napi::Object::New(call.env);
  object.DefineProperties({
      field("pointer", call.bigint(array.data)),
      field("shape", shape),
      field("dtype", Napi::String::New(call.env, array.dtype == BLOCKSTEP_INT64 ? "int64" : "int32")),
  });
  return object;
}

Napi::Value make_device_tables(const Call& call) {
  HostCore& core = call.core();
  const blockstep_tables& tables = core.make_device_tables(call.integer(0, "maxTokens", 1, kMaxTokens));
  auto arrays = Napi::Array::New(call.env, num_arrays(tables));
  for (u32 i = 0; i < num_arrays(tables); ++i) arrays.Set(i, array_object(call, array_of(tables, static_cast<Table>(i))));
  auto object = Napi::Object::New(call.env);
  object.DefineProperties({
      field("descriptor", call.bigint(reinterpret_cast<std::uintptr_t>(&tables))),
      field("device", call.number(tables.device)),
      field("arrays", arrays),
  });
  return object;
}

Napi::Value gather_on_device(const Call& call) {
  HostCore& core = call.core();
  const u32 frame = call.integer(0, "frame", 0, core.config().num_frames - 1);
  const u32 num_entries = call.integer(1, "numEntries", 0, core.config().max_entries);
  core.gather_on_device(frame, num_entries, read_stream(call[2]));
  return {};
}

template <u64 (Gatherer::*Count)() const>
Napi::Value count(const Call& call) {
  return call.number(static_cast<double>((call.core().gatherer().*Count)()));
}

Napi::Value read_device_table(const Call& call) {
  HostCore& core = call.core();
  const blockstep_tables& tables = core.gatherer().tables().descriptor();
  const auto which = static_cast<Table>(call.integer(0, "table", 0, num_arrays(tables) - 1));
  const u64 bytes = bytes_of(array_of(tables, which));
  core.read_device_table(which, Call::buffer(call[1], "out", bytes));
  return {};
}

}  // namespace

std::vector<Napi::PropertyDescriptor> device_table_methods(Napi::Env env) {
  return {
      method<make_device_tables>(env, "makeDeviceTables"),
      method<gather_on_device>(env, "gatherOnDevice"),
      method<count<&Gatherer::given>>(env, "gathersGiven"),
      method<count<&Gatherer::done>>(env, "gathersDone"),
      method<count<&Gatherer::waits>>(env, "gatherWaits"),
      method<read_device_table>(env, "readDeviceTable"),
  };
}

}  // namespace blockstep
