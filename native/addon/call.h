// One call from JavaScript: its checked arguments, its receiver, its answer. Node-API converts generously (NaN and
// 2^40 become 0, a detached buffer has length 0), so every argument is checked here, and nothing is converted.
#pragma once

#include <exception>
#include <string>

#include "environment.h"

namespace blockstep {

/// Thrown where a JavaScript exception is already pending, or the environment may not run JavaScript any more because
/// its worker is being terminated: a normal end of a call, with nothing to add.
struct PendingException {};

inline void require_ok(napi_status status) {
  if (status != napi_ok) throw PendingException{};
}

class Call {
 public:
  static constexpr std::size_t kMaxArguments = 5;

  Call(napi_env environment, napi_callback_info info) : env(environment) {
    std::size_t count = kMaxArguments;
    void* data;
    require_ok(napi_get_cb_info(env, info, &count, arguments_, &receiver, &data));
    home = static_cast<Environment*>(data);
  }

  /// The receiver's wrapper. @throws Error kBadReceiver
  CoreObject& object() const;
  /// The receiver's core. @throws Error kBadReceiver, kDisposed, kDetached
  HostCore& core() const;

  // Arguments by index. `name` is for the message. @throws Error kBadArg, kDetached
  napi_value operator[](u32 index) const { return arguments_[index]; }
  u32 integer(u32 index, const char* name, u32 min, u32 max) const {
    return check_integer(arguments_[index], name, min, max);
  }
  u32 slot(u32 index) const { return integer(index, "slot", 0, kSlotLimit - 1); }
  bool boolean(u32 index, const char* name) const { return check_boolean(arguments_[index], name); }
  std::u16string string(u32 index, const char* name) const;
  Span<std::int32_t> int32_array(u32 index, const char* name) const;

  // The same for values that are not arguments.
  u32 check_integer(napi_value value, const char* name, u32 min, u32 max) const;
  bool check_boolean(napi_value value, const char* name) const;
  napi_value property(napi_value object, const char* name) const;
  bool is_object(napi_value value) const;
  /// The elements of a typed array of exactly this type. Its memory is not shared, not detached, and its length is
  /// read now, so a resizable buffer is safe as long as no JavaScript runs in between.
  Span<void> typed_array(napi_value value, const char* name, napi_typedarray_type type, const char* expected) const;
  [[noreturn]] void refuse(const char* name, const char* expected, napi_value got) const;

  // Answers.
  napi_value number(double value) const;
  napi_value integer_value(std::int32_t value) const;
  napi_value boolean_value(bool value) const;
  napi_value bigint(u64 low, u64 high = 0) const;

  napi_env env;
  Environment* home;
  napi_value receiver;

 private:
  napi_value arguments_[kMaxArguments];
};

/// Throws a JavaScript error of the environment's error class.
void throw_error(napi_env env, const Environment* environment, const char* code, const char* message) noexcept;

/// A native method as Node wants it: C++ errors become JavaScript errors with a code, whatever happens.
template <napi_value (*Method)(const Call&)>
napi_value entry(napi_env env, napi_callback_info info) noexcept {
  const Environment* home = nullptr;
  try {
    const Call call(env, info);
    home = call.home;
    return Method(call);
  } catch (const Error& error) {
    throw_error(env, home, error.code, error.message.c_str());
  } catch (const std::bad_alloc&) {
    throw_error(env, home, kNoMemory, "out of memory; the operation did not happen");
  } catch (const PendingException&) {
  } catch (const std::exception& error) {  // nothing else is thrown on purpose, and nothing may reach Node
    throw_error(env, home, kInvariant, error.what());
  }
  return nullptr;
}

}  // namespace blockstep
