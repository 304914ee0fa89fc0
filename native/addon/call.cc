#include "call.h"

#include <cstdio>

namespace blockstep {
namespace {

/// A value for a message: numbers and booleans as they are, everything else by its type. Runs no JavaScript.
std::string show(napi_env env, napi_value value) {
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok) return "something unreadable";
  switch (type) {
    case napi_undefined: return "undefined";
    case napi_null: return "null";
    case napi_string: return "a string";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_bigint: return "a BigInt";
    case napi_boolean: {
      bool yes = false;
      napi_get_value_bool(env, value, &yes);
      return yes ? "true" : "false";
    }
    case napi_number: {
      double number = 0;
      napi_get_value_double(env, value, &number);
      char text[32];
      std::snprintf(text, sizeof text, "%.17g", number);
      return text;
    }
    default: return "an object";
  }
}

}  // namespace

CoreObject& Call::object() const {
  void* wrapped = nullptr;
  const napi_status status = napi_unwrap(env, receiver, &wrapped);
  auto* object = static_cast<CoreObject*>(wrapped);  // only an address until it is found to be one of ours
  if (status != napi_ok || (object != home->recent && home->live.count(object) == 0)) {
    throw Error{kBadReceiver, "this method needs a native core as its receiver"};
  }
  home->recent = object;
  return *object;
}

HostCore& Call::core() const {
  const CoreObject& object = this->object();
  if (!object.core) throw Error{kDisposed, "the core was disposed"};
  napi_value exchange;
  require_ok(napi_get_reference_value(env, object.exchange, &exchange));
  void* data = nullptr;
  std::size_t bytes = 0;
  require_ok(napi_get_arraybuffer_info(env, exchange, &data, &bytes));
  if (data != object.exchange_data || bytes != object.exchange_bytes) {
    throw Error{kDetached, "the exchange buffer was detached or resized"};
  }
  return *object.core;
}

void Call::refuse(const char* name, const char* expected, napi_value got) const {
  throw Error{kBadArg, std::string(name) + " must be " + expected + ", got " + show(env, got)};
}

u32 Call::check_integer(napi_value value, const char* name, u32 min, u32 max) const {
  double number;
  if (napi_get_value_double(env, value, &number) == napi_ok && number >= min && number <= max) {
    const u32 integer = static_cast<u32>(number);
    if (integer == number) return integer;
  }
  const std::string expected = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  refuse(name, expected.c_str(), value);
}

bool Call::check_boolean(napi_value value, const char* name) const {
  bool boolean;
  if (napi_get_value_bool(env, value, &boolean) != napi_ok) refuse(name, "a boolean", value);
  return boolean;
}

bool Call::is_object(napi_value value) const {
  napi_valuetype type;
  require_ok(napi_typeof(env, value, &type));
  return type == napi_object;
}

napi_value Call::property(napi_value object, const char* name) const {
  napi_value value;
  require_ok(napi_get_named_property(env, object, name, &value));
  return value;
}

/// As UTF-16, which is what JavaScript has: UTF-8 would make different lone surrogates, so different salts, the same.
std::u16string Call::string(u32 index, const char* name) const {
  constexpr std::size_t kMaxLength = 65536;
  std::size_t length;
  if (napi_get_value_string_utf16(env, arguments_[index], nullptr, 0, &length) != napi_ok) {
    refuse(name, "a string", arguments_[index]);
  }
  if (length > kMaxLength) {
    throw Error{kBadArg, std::string(name) + " must have at most 65536 characters, got " + std::to_string(length)};
  }
  std::u16string text(length, u'\0');
  if (length == 0) return text;
  require_ok(napi_get_value_string_utf16(env, arguments_[index], text.data(), length + 1, &length));
  return text;
}

Span<void> Call::typed_array(napi_value value, const char* name, napi_typedarray_type type,
                             const char* expected) const {
  bool is = false;
  if (napi_is_typedarray(env, value, &is) != napi_ok || !is) refuse(name, expected, value);
  napi_typedarray_type actual;
  std::size_t length;
  void* data;
  napi_value buffer;
  require_ok(napi_get_typedarray_info(env, value, &actual, &length, &data, &buffer, nullptr));
  if (actual != type) throw Error{kBadArg, std::string(name) + " must be " + expected + ", got another typed array"};
  if (napi_is_arraybuffer(env, buffer, &is) != napi_ok || !is) {
    throw Error{kBadArg, std::string(name) + " must not lie in a SharedArrayBuffer"};
  }
  require_ok(napi_is_detached_arraybuffer(env, buffer, &is));
  if (is) throw Error{kDetached, std::string(name) + " lies in a detached ArrayBuffer"};
  if (length > kMaxTokens) throw Error{kBadArg, std::string(name) + " has " + std::to_string(length) + " elements"};
  return {data, static_cast<u32>(length)};
}

Span<std::int32_t> Call::int32_array(u32 index, const char* name) const {
  const Span<void> found = typed_array(arguments_[index], name, napi_int32_array, "an Int32Array");
  return {static_cast<std::int32_t*>(found.data), found.size};
}

napi_value Call::number(double value) const {
  napi_value result;
  require_ok(napi_create_double(env, value, &result));
  return result;
}

napi_value Call::integer_value(std::int32_t value) const {
  napi_value result;
  require_ok(napi_create_int32(env, value, &result));
  return result;
}

napi_value Call::boolean_value(bool value) const {
  napi_value result;
  require_ok(napi_get_boolean(env, value, &result));
  return result;
}

napi_value Call::bigint(u64 low, u64 high) const {
  const u64 words[2] = {low, high};
  napi_value result;
  require_ok(napi_create_bigint_words(env, 0, 2, words, &result));
  return result;
}

void throw_error(napi_env env, const Environment* environment, const char* code, const char* message) noexcept {
  napi_value error_class;
  napi_value arguments[2];
  napi_value error;
  const bool classed = environment && environment->error_class &&
                       napi_get_reference_value(env, environment->error_class, &error_class) == napi_ok &&
                       napi_create_string_utf8(env, code, NAPI_AUTO_LENGTH, &arguments[0]) == napi_ok &&
                       napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &arguments[1]) == napi_ok &&
                       napi_new_instance(env, error_class, 2, arguments, &error) == napi_ok;
  if (classed) {
    napi_throw(env, error);
    return;
  }
  bool pending = false;  // the class itself threw: that is what the caller gets
  if (napi_is_exception_pending(env, &pending) == napi_ok && !pending) napi_throw_error(env, code, message);
}

}  // namespace blockstep
