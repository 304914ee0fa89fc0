#include "environment.h"

#include "call.h"

namespace blockstep {
namespace {

/// The garbage collector let go of a core object, or its environment ended.
void finalize_core(napi_env env, void* data, void*) {
  auto* object = static_cast<CoreObject*>(data);
  if (object->environment) {
    dispose(env, *object);
    object->environment->live.erase(object);
    if (object->environment->recent == object) object->environment->recent = nullptr;
  }
  delete object;
}

void weigh(napi_env env, CoreObject& object, std::int64_t bytes) {
  std::int64_t total;
  napi_adjust_external_memory(env, bytes - object.reported_bytes, &total);
  object.reported_bytes = bytes;
}

}  // namespace

void dispose(napi_env env, CoreObject& object) {
  if (!object.core) return;
  object.core.reset();
  napi_delete_reference(env, object.exchange);
  object.exchange = nullptr;
  weigh(env, object, 0);
}

napi_value wrap_core(napi_env env, Environment& environment, std::unique_ptr<HostCore> core, napi_value exchange) {
  // What the pool takes from the start; the KV slot table costs nothing until rows are used.
  const Config& pool = core->config().pool;
  const auto bytes = static_cast<std::int64_t>(state_bytes({pool.num_blocks, 1, 1, pool.bucket_bits}));
  auto object = std::make_unique<CoreObject>();
  object->environment = &environment;
  napi_value core_class;
  napi_value instance;
  require_ok(napi_get_reference_value(env, environment.core_class, &core_class));
  environment.constructing = true;
  const napi_status constructed = napi_new_instance(env, core_class, 0, nullptr, &instance);
  environment.constructing = false;
  require_ok(constructed);
  require_ok(napi_get_arraybuffer_info(env, exchange, &object->exchange_data, &object->exchange_bytes));
  environment.live.insert(object.get());
  if (napi_wrap(env, instance, object.get(), finalize_core, nullptr, nullptr) != napi_ok) {
    environment.live.erase(object.get());
    throw PendingException{};
  }
  CoreObject& owned = *object.release();  // the wrap has it now
  require_ok(napi_create_reference(env, exchange, 1, &owned.exchange));
  owned.core = std::move(core);
  weigh(env, owned, bytes);
  return instance;
}

void end_environment(void* data) {
  auto* environment = static_cast<Environment*>(data);
  for (CoreObject* object : environment->live) {
    dispose(environment->env, *object);
    object->environment = nullptr;  // its finalizer is still to come, and finds nothing but itself
  }
  for (napi_ref reference : {environment->core_class, environment->error_class}) {
    if (reference) napi_delete_reference(environment->env, reference);
  }
  delete environment;
}

}  // namespace blockstep
