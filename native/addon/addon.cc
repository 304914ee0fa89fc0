// The module: what require() of the addon returns. NativeAddon in src/core/native.ts describes it.
#include "../host/replay.h"
#include "call.h"
#include "configuration.h"

namespace blockstep {
namespace {

/// Version of the border between TypeScript and native code; src/core/loader.ts expects the same.
constexpr std::int32_t kAbi = 1;

napi_value create(const Call& call) {
  const HostConfig config = read_configuration(call, call[0]);
  const Exchange exchange = read_exchange(call, call[1], config);
  return wrap_core(call.env, *call.home, std::make_unique<HostCore>(config, exchange), call[1]);
}

napi_value use_error_class(const Call& call) {
  napi_valuetype type;
  require_ok(napi_typeof(call.env, call[0], &type));
  if (type != napi_function) call.refuse("errorClass", "a class", call[0]);
  napi_ref next;
  require_ok(napi_create_reference(call.env, call[0], 1, &next));
  if (call.home->error_class) napi_delete_reference(call.env, call.home->error_class);
  call.home->error_class = next;
  return nullptr;
}

napi_value replay_log(const Call& call) {
  const HostConfig config = read_configuration(call, call[0]);
  const Span<void> log = call.typed_array(call[1], "log", napi_uint32_array, "a Uint32Array");
  const ReplayResult result = replay(config.pool, static_cast<const u32*>(log.data), log.size);
  napi_value object;
  require_ok(napi_create_object(call.env, &object));
  const auto set = [&](const char* name, napi_value value) {
    require_ok(napi_set_named_property(call.env, object, name, value));
  };
  set("digest", call.bigint(result.digest));
  set("rollingDigest", call.bigint(result.rolling_digest));
  set("commands", call.number(static_cast<double>(result.commands)));
  set("freeBlocks", call.number(result.free_blocks));
  return object;
}

void define_module(napi_env env, napi_value exports, Environment& home) {
  napi_value abi;
  napi_value backends;
  napi_value host;
  require_ok(napi_create_int32(env, kAbi, &abi));
  require_ok(napi_create_array_with_length(env, 1, &backends));
  require_ok(napi_create_string_utf8(env, "host", NAPI_AUTO_LENGTH, &host));
  require_ok(napi_set_element(env, backends, 0, host));
  require_ok(napi_object_freeze(env, backends));
  const auto function = [&](const char* name, napi_callback callback) {
    return napi_property_descriptor{name, nullptr, callback, nullptr, nullptr, nullptr, napi_enumerable, &home};
  };
  const auto constant = [](const char* name, napi_value value) {
    return napi_property_descriptor{name, nullptr, nullptr, nullptr, nullptr, value, napi_enumerable, nullptr};
  };
  const napi_property_descriptor properties[] = {
      constant("abi", abi),
      constant("backends", backends),
      function("create", entry<create>),
      function("replay", entry<replay_log>),
      function("useErrorClass", entry<use_error_class>),
  };
  require_ok(napi_define_properties(env, exports, std::size(properties), properties));
}

napi_value initialize(napi_env env, napi_value exports) noexcept {
  try {
    auto home = std::make_unique<Environment>(env);
    define_core_class(env, *home);
    define_module(env, exports, *home);
    require_ok(napi_add_env_cleanup_hook(env, end_environment, home.get()));
    home.release();  // end_environment() frees it
    return exports;
  } catch (...) {
    throw_error(env, nullptr, kNoMemory, "the native addon could not be initialized");
    return nullptr;
  }
}

}  // namespace
}  // namespace blockstep

NAPI_MODULE_INIT() { return blockstep::initialize(env, exports); }
