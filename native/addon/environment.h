// What one Node environment (the main thread or a worker) has of one loaded copy of the addon. There is no static
// mutable state: environments and copies know nothing of each other. Every callback gets its environment as data.
#pragma once

#include <node_api.h>

#include <memory>
#include <unordered_set>

#include "../host/core.h"

namespace blockstep {

struct Environment;

/// The native part of a NativeCore. Node's wrap owns it; the core inside goes earlier, at dispose() or when the
/// environment ends, whichever comes first.
struct CoreObject {
  Environment* environment;    // null once the environment has ended
  std::unique_ptr<HostCore> core;
  napi_ref exchange;           // keeps the exchange buffer alive while the core is there
  void* exchange_data;
  std::size_t exchange_bytes;
  std::int64_t reported_bytes;  // what the garbage collector was told this object weighs
};

struct Environment {
  explicit Environment(napi_env node_env) : env(node_env) {}

  napi_env env;
  napi_ref core_class = nullptr;
  napi_ref error_class = nullptr;  // null: plain Error
  bool constructing = false;       // the class is being constructed by create(), not by a stranger
  /// Every wrapped object. A receiver is ours exactly if its wrap is one of these: a wrap of another addon, of another
  /// copy of this one or of another environment has another address. As sure as a type tag, and 60 ns a call cheaper.
  std::unordered_set<CoreObject*> live;
  CoreObject* recent = nullptr;  // the last one found in `live`
};

/// Frees the core now. Idempotent.
void dispose(napi_env env, CoreObject& object);

/// Wraps a new core in a JavaScript object of the environment's class.
napi_value wrap_core(napi_env env, Environment& environment, std::unique_ptr<HostCore> core, napi_value exchange);

/// Creates the class of the core objects, with the methods of methods.cc on its prototype.
void define_core_class(napi_env env, Environment& environment);

/// Frees all cores and the environment itself. Runs as cleanup hook, which is before any finalizer. References must be
/// deleted here: Node does not free those that it did not finalize.
void end_environment(void* environment);

}  // namespace blockstep
