#include "environment.h"

#include "call.h"

namespace blockstep {
namespace {

/// A flag that is up as long as this lives.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) { flag_ = true; }
  ~Raised() { flag_ = false; }

 private:
  bool& flag_;
};

}  // namespace

Environment::~Environment() {
  for (CoreObject* object : live) object->orphan();
}

Napi::Object CoreObject::make(Environment& home, std::unique_ptr<HostCore> core, Napi::ArrayBuffer exchange) {
  // What the pool takes from the start; the KV slot table costs nothing until rows are used.
  const Config& pool = core->config().pool;
  const auto bytes = static_cast<std::int64_t>(state_bytes({pool.num_blocks, 1, 1, pool.bucket_bits}));
  const Raised constructing(home.constructing);
  const Napi::Object instance = home.core_class.New({});
  CoreObject& object = *Unwrap(instance);
  home.live.insert(&object);
  object.home_ = &home;
  object.exchange_ = Napi::Persistent(exchange);
  object.exchange_data_ = exchange.Data();
  object.exchange_bytes_ = exchange.ByteLength();
  object.core_ = std::move(core);
  object.weigh(bytes);
  return instance;
}

/// Anybody but make() gets an exception, and an object that never becomes one of ours.
CoreObject::CoreObject(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  if (!info.Env().GetInstanceData<Environment>()->constructing) refuse(info.Env());
}

Napi::Value CoreObject::OnCalledAsFunction(const Napi::CallbackInfo& info) {
  refuse(info.Env());
  return {};
}

void CoreObject::refuse(Napi::Env env) {
  throw_error(env, kBadArg, "a native core is made by create(), not by its constructor");
}

CoreObject::~CoreObject() {
  if (!home_) return;
  dispose();
  home_->live.erase(this);
  if (home_->recent == this) home_->recent = nullptr;
}

HostCore& CoreObject::core() const {
  if (!core_) throw Error{kDisposed, "the core was disposed"};
  void* data = nullptr;
  std::size_t bytes = 0;
  require_ok(napi_get_arraybuffer_info(Env(), exchange_.Value(), &data, &bytes));
  if (data == exchange_data_ && bytes == exchange_bytes_) return *core_;
  throw Error{kDetached, "the exchange buffer was detached or resized"};
}

void CoreObject::dispose() {
  if (!core_) return;
  core_.reset();
  exchange_.Reset();
  weigh(0);
}

void CoreObject::orphan() {
  dispose();
  home_ = nullptr;
}

void CoreObject::weigh(std::int64_t bytes) {
  Napi::MemoryManagement::AdjustExternalMemory(Env(), bytes - reported_bytes_);
  reported_bytes_ = bytes;
}

}  // namespace blockstep
