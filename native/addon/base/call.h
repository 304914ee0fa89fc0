// Call: one call from JavaScript, with its checked arguments, its receiver and its answer. Node-API
// converts values silently (NaN and 2^40 become 0, a detached buffer has length 0). Every argument
// is therefore checked here, and no argument is converted.
//
// Two kinds of code call Node-API directly instead of node-addon-api. The first kind runs in every
// step, and reads the receiver, its exchange buffer and the arguments. node-addon-api makes two or
// three Node-API calls there instead of one. That would cost run 6 ns, match 9, admit 20 and flush
// 4, of 100 to 180 ns. It would cost add 85 of its 270 ns.
//
// The second kind may run JavaScript of the user: getters and the error class. If the timeout of a
// vm script terminates that JavaScript, no exception is left for a Napi::Error, and node-addon-api
// aborts the process.
#pragma once

#include <exception>
#include <initializer_list>
#include <new>
#include <string>

#include "environment.h"

namespace blockstep {

/// Thrown if a JavaScript exception is already pending, or if the environment may not run
/// JavaScript any more. It ends the call without a further JavaScript error.
struct PendingException {};

inline void require_ok(napi_status status) {
  if (status != napi_ok) throw PendingException{};
}

/// A property of an object. Its getter may run JavaScript. @throws PendingException
Napi::Value read_property(Napi::Value object, const char* name);

/// Makes a JavaScript error of the environment's error class pending. If the class itself throws,
/// its exception is pending.
void throw_error(Napi::Env env, const char* code, const std::string& message);

class Call {
 public:
  explicit Call(const Napi::CallbackInfo& info)
      : env(info.Env()), home(*static_cast<Environment*>(info.Data())), info_(info) {}

  napi_value receiver() const { return info_.This(); }
  /// The receiver's wrapper. @throws Error kBadReceiver
  CoreObject& object() const;
  /// The receiver's core. @throws Error kBadReceiver, kDisposed, kDetached
  HostCore& core() const { return object().core(); }

  // Arguments by index. `name` is the argument's name in error messages. @throws Error kBadArg,
  // kDetached
  Napi::Value operator[](u32 index) const { return info_[index]; }
  u32 integer(u32 index, const char* name, u32 min, u32 max) const {
    return check_integer(info_[index], name, min, max);
  }
  /// A number of blocks; 0 if the call has no such argument.
  u32 blocks(u32 index, const char* name, u32 max) const {
    return info_.Length() > index ? integer(index, name, 0, max) : 0;
  }
  u32 slot(u32 index) const { return integer(index, "slot", 0, kSlotLimit - 1); }
  bool boolean(u32 index, const char* name) const { return check_boolean(info_[index], name); }
  std::u16string string(u32 index, const char* name) const;
  Span<std::int32_t> int32_array(u32 index, const char* name) const {
    return typed_array<std::int32_t>(info_[index], name, napi_int32_array, "an Int32Array");
  }

  // The same checks for other values:
  static u32 check_integer(Napi::Value value, const char* name, u32 min, u32 max) {
    double number;
    if (napi_get_value_double(value.Env(), value, &number) == napi_ok && number >= min && number <= max) {
      const u32 integer = static_cast<u32>(number);
      if (integer == number) return integer;
    }
    refuse_integer(value, name, min, max);
  }
  /// A request handle: a safe integer, from 1.
  static u64 check_handle(Napi::Value value, const char* name);
  static bool check_boolean(Napi::Value value, const char* name);
  /// The index of one of these strings.
  static u32 check_choice(Napi::Value value, const char* name, std::initializer_list<const char*> choices);
  /// The elements of a typed array of exactly this type. Its memory is neither shared nor detached.
  /// Its length is read now, so a resizable buffer is safe if no JavaScript runs before the
  /// elements are used.
  template <class T>
  static Span<T> typed_array(Napi::Value value, const char* name, napi_typedarray_type type, const char* expected) {
    const Span<void> found = check_array(value, name, type, expected);
    return {static_cast<T*>(found.data), found.size};
  }
  /// The memory of an ArrayBuffer of exactly `bytes` bytes. The pointer is valid only during this
  /// call.
  static void* buffer(Napi::Value value, const char* name, u64 bytes);
  /// An ArrayBuffer of fixed length, neither shared nor detached, of exactly `bytes` bytes. Runs
  /// JavaScript only if user code tampered with the buffer.
  static Napi::ArrayBuffer fixed_buffer(Napi::Value value, const char* name, u64 bytes);
  [[noreturn]] static void refuse(const char* name, const std::string& expected, Napi::Value got);

  // Answers.
  Napi::Value number(double value) const { return Napi::Number::New(env, value); }
  Napi::Value integer_value(std::int32_t value) const {
    napi_value result;
    require_ok(napi_create_int32(env, value, &result));
    return {env, result};
  }
  Napi::Value bigint(u64 low, u64 high = 0) const;

  const Napi::Env env;
  Environment& home;

 private:
  [[noreturn]] static void refuse_integer(Napi::Value value, const char* name, u32 min, u32 max);
  static Span<void> check_array(Napi::Value value, const char* name, napi_typedarray_type type, const char* expected);

  const Napi::CallbackInfo& info_;
};

/// Makes a native method callable by node-addon-api: every C++ exception becomes a JavaScript error
/// with a code. A Napi::Error already is a JavaScript error, which node-addon-api throws.
template <Napi::Value (*Method)(const Call&)>
Napi::Value entry(const Napi::CallbackInfo& info) {
  try {
    return Method(Call(info));
  } catch (const Error& error) {
    throw_error(info.Env(), error.code, error.message);
  } catch (const std::bad_alloc&) {
    throw_error(info.Env(), kNoMemory, "out of memory; the operation did not happen");
  } catch (const PendingException&) {
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& error) {  // unexpected, but none may reach Node
    throw_error(info.Env(), kInvariant, error.what());
  }
  return {};
}

/// A property of an answer. Unlike an assignment, defining a property runs no setter on
/// Object.prototype.
inline Napi::PropertyDescriptor field(const char* name, Napi::Value value) {
  return Napi::PropertyDescriptor::Value(name, value, napi_default_jsproperty);
}

/// A property that holds a native method. The function's data is the environment, so that calls
/// need no lookup.
template <Napi::Value (*Method)(const Call&)>
Napi::PropertyDescriptor method(Napi::Env env, const char* name, napi_property_attributes attributes = napi_default) {
  const auto function = Napi::Function::New<entry<Method>>(env, name, env.GetInstanceData<Environment>());
  return Napi::PropertyDescriptor::Value(name, function, attributes);
}

}  // namespace blockstep
