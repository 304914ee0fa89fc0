#include "environment.h"

#include "call.h"

namespace blockstep {

Environment::~Environment() {
  for (CoreObject* object : live) object->orphan();
  for (WrapClass* each : {&device_lanes, &lanes, &device_references, &references, &rings, &arenas}) {
    for (const auto& [address, object] : each->live) object->orphan();
  }
}

Napi::Object CoreObject::make(Environment& home, std::unique_ptr<HostCore> core, Napi::ArrayBuffer exchange) {
  // The memory that the pool takes initially. The KV slot table takes none until rows are used.
  const Config& pool = core->config().pool;
  const auto bytes = static_cast<std::int64_t>(state_bytes({pool.num_blocks, 1, 1, pool.bucket_bits}));
  const Raised constructing(home.constructing);
  const Napi::Object instance = home.core_class.New({});
  CoreObject& object = *Unwrap(instance);
  home.live.insert(&object);
  object.home_ = &home;
  object.exchange_.hold(exchange);
  object.tables_.resize(core->config().num_frames);
  object.core_ = std::move(core);
  object.weigh(bytes);
  return instance;
}

/// Constructors that are not called by make() throw, and the object is never registered.
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
  if (exchange_.intact()) return *core_;
  throw Error{kDetached, "the exchange buffer was detached or resized"};
}

void CoreObject::check_tables(u32 frame) const {
  if (!tables_[frame].data || tables_[frame].intact()) return;
  throw Error{kDetached, "the tables of frame " + std::to_string(frame) + " were detached or resized"};
}

void CoreObject::HeldBuffer::hold(Napi::ArrayBuffer buffer) {
  reference = Napi::Persistent(buffer);
  data = buffer.Data();
  bytes = buffer.ByteLength();
}

bool CoreObject::HeldBuffer::intact() const {
  void* data_now = nullptr;
  std::size_t bytes_now = 0;
  require_ok(napi_get_arraybuffer_info(reference.Env(), reference.Value(), &data_now, &bytes_now));
  return data_now == data && bytes_now == bytes;
}

void CoreObject::dispose() {
  if (!core_) return;
  core_.reset();
  exchange_.reference.Reset();
  tables_.clear();
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
