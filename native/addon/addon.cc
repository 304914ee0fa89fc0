// The module: the result of require() for the addon. NativeAddon in src/core/native/native.ts
// describes it.
#include "../host/log/replay.h"
#include "base/backend.h"
#include "base/call.h"
#include "core/configuration.h"
#include "fatal_signals.h"
#include "file_lock.h"
#include "objects/arena_object.h"
#include "objects/device_reference_object.h"
#include "objects/reference_object.h"
#include "objects/transfer_objects.h"

namespace blockstep {
namespace {

/// Version of the interface between TypeScript and native code. src/core/loader.ts expects the same
/// number.
constexpr double kAbi = 12;

Napi::Value create(const Call& call) {
  const HostConfig config = read_configuration(call[0]);
  const Exchange exchange = read_exchange(call[1], config);
  MirrorRequest mirror = open_mirror(call[0], config);
  auto core = std::make_unique<HostCore>(config, exchange, std::move(mirror.device), mirror.max_logs);
  return CoreObject::make(call.home, std::move(core), call[1].As<Napi::ArrayBuffer>());
}

Napi::Value say_signals(const Call&) {
  say_fatal_signals();
  return {};
}

Napi::Value use_error_class(const Call& call) {
  if (!call[0].IsFunction()) Call::refuse("errorClass", "a class", call[0]);
  call.home.error_class = Napi::Persistent(call[0].As<Napi::Function>());
  return {};
}

Napi::Value replay_log(const Call& call) {
  const HostConfig config = read_configuration(call[0]);
  const Span<u32> log = Call::typed_array<u32>(call[1], "log", napi_uint32_array, "a Uint32Array");
  const ReplayResult result = replay(config.pool, log.data, log.size);
  auto object = Napi::Object::New(call.env);
  object.DefineProperties({
      field("digest", call.bigint(result.digest)),
      field("rollingDigest", call.bigint(result.rolling_digest)),
      field("commands", call.number(static_cast<double>(result.commands))),
      field("freeBlocks", call.number(result.free_blocks)),
  });
  return object;
}

Napi::PropertyDescriptor constant(const char* name, Napi::Value value) {
  return Napi::PropertyDescriptor::Value(name, value, napi_enumerable);
}

void define_module(Napi::Env env, Napi::Object exports) {
  auto* home = new Environment;
  env.SetInstanceData(home);  // takes ownership
  home->core_class = Napi::Persistent(CoreObject::define_class(env));
  define_reference_class(env);
  define_device_reference_class(env);
  define_arena_class(env);
  define_transfer_classes(env);
  exports.DefineProperties({
      constant("abi", Napi::Number::New(env, kAbi)),
      constant("backends", backend_names(env)),
      method<create>(env, "create", napi_enumerable),
      method<probe_backends>(env, "probe", napi_enumerable),
      method<create_reference>(env, "createReference", napi_enumerable),
      method<create_device_reference>(env, "createDeviceReference", napi_enumerable),
      method<create_ring>(env, "createRing", napi_enumerable),
      method<create_arena>(env, "createArena", napi_enumerable),
      method<attach_arena>(env, "attachArena", napi_enumerable),
      method<create_lane>(env, "createLane", napi_enumerable),
      method<create_cuda_lane>(env, "createCudaLane", napi_enumerable),
      method<replay_log>(env, "replay", napi_enumerable),
      method<use_error_class>(env, "useErrorClass", napi_enumerable),
      method<say_signals>(env, "sayFatalSignals", napi_enumerable),
      method<lock_file>(env, "lockFile", napi_enumerable),
  });
}

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  try {
    define_module(env, exports);
  } catch (const std::exception&) {
    throw_error(env, kNoMemory, "the native addon could not be initialized");
  }
  return exports;
}

}  // namespace

NODE_API_MODULE(blockstep, initialize)

}  // namespace blockstep
