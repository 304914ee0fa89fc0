// Wrapped: a JavaScript object that owns a native object, with the lifetime rules of CoreObject. It
// releases the native object when it is disposed, when it is collected, or when the environment
// ends, whichever comes first. A shared native object, such as an arena that lanes use, lives until
// its last owner releases it.
#pragma once

#include "call.h"

namespace blockstep {

/// The traits of a native type. They are `kClass`, the name of the JavaScript class; `kWhat`, its
/// name in messages; and of(), which returns the class in the environment.
template <class T>
struct WrapTraits;

template <class T>
class Wrapped : public Napi::ObjectWrap<Wrapped<T>>, public Orphan {
  using Base = Napi::ObjectWrap<Wrapped<T>>;
  using Traits = WrapTraits<T>;

 public:
  /// A new JavaScript object that owns `owned`. @param bytes external memory to report to the
  /// garbage collector
  static Napi::Object make(Environment& home, std::shared_ptr<T> owned, u64 bytes) {
    WrapClass& type = Traits::of(home);
    const Raised constructing(home.constructing);
    const Napi::Object instance = type.constructor.New({});
    Wrapped& object = *Base::Unwrap(instance);
    type.live.emplace(&object, &object);
    object.home_ = &home;
    object.owned_ = std::move(owned);
    object.weigh(static_cast<std::int64_t>(bytes));
    return instance;
  }

  /// Creates the class, with these methods on its prototype. CoreObject::define_class explains why
  /// they are there.
  static void define(Napi::Env env, const std::vector<Napi::PropertyDescriptor>& methods) {
    const Napi::Function type = Base::DefineClass(env, Traits::kClass, {});
    type.Get("prototype").template As<Napi::Object>().DefineProperties(methods);
    Traits::of(*env.GetInstanceData<Environment>()).constructor = Napi::Persistent(type);
  }

  // For Napi::ObjectWrap: `new` and a call of the class. Both throw unless make() is running.
  explicit Wrapped(const Napi::CallbackInfo& info) : Base(info) {
    if (!info.Env().template GetInstanceData<Environment>()->constructing) refuse(info.Env());
  }
  static Napi::Value OnCalledAsFunction(const Napi::CallbackInfo& info) {
    refuse(info.Env());
    return {};
  }
  ~Wrapped() {
    if (!home_) return;
    dispose();
    Traits::of(*home_).live.erase(this);
  }

  /// The receiver of a call. @throws Error kBadReceiver
  static Wrapped& receiver(const Call& call) {
    Wrapped* object = find(call, call.receiver());
    if (!object) throw Error{kBadReceiver, std::string("this method needs ") + Traits::kWhat + " as its receiver"};
    return *object;
  }
  /// An argument of a call. @throws Error kBadArg
  static Wrapped& argument(const Call& call, u32 index, const char* name) {
    Wrapped* object = find(call, call[index]);
    if (!object) Call::refuse(name, Traits::kWhat, call[index]);
    return *object;
  }

  /// @throws Error kDisposed
  const std::shared_ptr<T>& owned() const {
    if (!owned_) throw Error{kDisposed, std::string(Traits::kWhat) + " was used after it was disposed"};
    return owned_;
  }
  /// Releases this object's share of the native object now. Calls its close() first, if it has that
  /// method, because other owners may keep the native object alive. Idempotent.
  void dispose() {
    if (!owned_) return;
    if constexpr (requires(T& owned) { owned.close(); }) owned_->close();
    owned_.reset();
    weigh(0);
  }
  void orphan() override {
    dispose();
    home_ = nullptr;
  }

 private:
  static Wrapped* find(const Call& call, napi_value value) {
    void* wrapped = nullptr;
    if (napi_unwrap(call.env, value, &wrapped) != napi_ok) return nullptr;
    // `wrapped` is not dereferenced unless it is in the set of this class's objects.
    return Traits::of(call.home).live.count(wrapped) ? static_cast<Wrapped*>(wrapped) : nullptr;
  }
  static void refuse(Napi::Env env) {
    throw_error(env, kBadArg, std::string(Traits::kWhat) + " must be made by the addon, got a call of its constructor");
  }
  void weigh(std::int64_t bytes) {
    Napi::MemoryManagement::AdjustExternalMemory(this->Env(), bytes - reported_bytes_);
    reported_bytes_ = bytes;
  }

  Environment* home_ = nullptr;  // null before make(), and after the environment has ended
  std::shared_ptr<T> owned_;
  std::int64_t reported_bytes_ = 0;
};

/// The receiver's native object. @throws Error kBadReceiver, kDisposed
template <class T>
T& receiver(const Call& call) {
  return *Wrapped<T>::receiver(call).owned();
}

template <class T>
Napi::Value dispose_receiver(const Call& call) {
  Wrapped<T>::receiver(call).dispose();
  return {};
}

}  // namespace blockstep
