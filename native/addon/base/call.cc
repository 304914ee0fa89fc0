#include "call.h"

#include <cstdio>

namespace blockstep {
namespace {

/// Formats a value for a message: numbers and booleans as they are, other values by their type.
/// Runs no JavaScript.
std::string show(Napi::Value value) {
  switch (value.Type()) {
    case napi_undefined: return "undefined";
    case napi_null: return "null";
    case napi_string: return "a string";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_bigint: return "a BigInt";
    case napi_boolean: return value.As<Napi::Boolean>() ? "true" : "false";
    case napi_number: {
      char text[32];
      std::snprintf(text, sizeof text, "%.17g", value.As<Napi::Number>().DoubleValue());
      return text;
    }
    default: return "an object";
  }
}

}  // namespace

CoreObject& Call::object() const {
  void* wrapped = nullptr;
  const napi_status status = napi_unwrap(env, info_.This(), &wrapped);
  auto* object = static_cast<CoreObject*>(wrapped);  // only an address so far
  if (status != napi_ok || (object != home.recent && home.live.count(object) == 0)) {
    throw Error{kBadReceiver, "this method needs a native core as its receiver"};
  }
  home.recent = object;
  return *object;
}

void Call::refuse(const char* name, const std::string& expected, Napi::Value got) {
  throw Error{kBadArg, std::string(name) + " must be " + expected + ", got " + show(got)};
}

void Call::refuse_integer(Napi::Value value, const char* name, u32 min, u32 max) {
  refuse(name, "an integer from " + std::to_string(min) + " to " + std::to_string(max), value);
}

u64 Call::check_handle(Napi::Value value, const char* name) {
  constexpr double kMax = 9007199254740991.0;
  double number;
  if (napi_get_value_double(value.Env(), value, &number) == napi_ok && number >= 1 && number <= kMax) {
    const u64 handle = static_cast<u64>(number);
    if (static_cast<double>(handle) == number) return handle;
  }
  refuse(name, "a handle", value);
}

bool Call::check_boolean(Napi::Value value, const char* name) {
  if (!value.IsBoolean()) refuse(name, "a boolean", value);
  return value.As<Napi::Boolean>();
}

u32 Call::check_choice(Napi::Value value, const char* name, std::initializer_list<const char*> choices) {
  const std::string given = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  u32 index = 0;
  std::string expected;
  for (const char* choice : choices) {
    if (given == choice) return index;
    expected += (index == 0 ? "" : index + 1 == choices.size() ? " or " : ", ") + std::string(choice);
    index += 1;
  }
  refuse(name, expected, value);
}

/// As UTF-16, like in JavaScript. UTF-8 would make different lone surrogates, and so different
/// salts, equal.
std::u16string Call::string(u32 index, const char* name) const {
  constexpr std::size_t kMaxLength = 65536;
  const Napi::Value value = info_[index];
  std::size_t length;
  if (napi_get_value_string_utf16(env, value, nullptr, 0, &length) != napi_ok) refuse(name, "a string", value);
  if (length == 0) return {};
  if (length <= kMaxLength) return value.As<Napi::String>();
  throw Error{kBadArg, std::string(name) + " must have at most 65536 characters, got " + std::to_string(length)};
}

Span<void> Call::check_array(Napi::Value value, const char* name, napi_typedarray_type type, const char* expected) {
  if (!value.IsTypedArray()) refuse(name, expected, value);
  napi_typedarray_type actual;
  std::size_t length;
  void* data;
  napi_value memory;
  require_ok(napi_get_typedarray_info(value.Env(), value, &actual, &length, &data, &memory, nullptr));
  const Napi::ArrayBuffer buffer(value.Env(), memory);
  if (actual != type) throw Error{kBadArg, std::string(name) + " must be " + expected + ", got another typed array"};
  if (!buffer.IsArrayBuffer()) {
    throw Error{kBadArg, std::string(name) + " must not be in a SharedArrayBuffer, got a view of one"};
  }
  if (buffer.IsDetached()) throw Error{kDetached, std::string(name) + " must not be detached, got a view of a detached ArrayBuffer"};
  if (length > kMaxTokens) throw Error{kBadArg, std::string(name) + " must have at most " + std::to_string(kMaxTokens) + " elements, got " + std::to_string(length)};
  return {data, static_cast<u32>(length)};
}

void* Call::buffer(Napi::Value value, const char* name, u64 bytes) {
  if (!value.IsArrayBuffer()) refuse(name, "an ArrayBuffer that is not shared", value);
  auto buffer = value.As<Napi::ArrayBuffer>();
  if (buffer.IsDetached()) throw Error{kDetached, std::string(name) + " must not be detached, got a detached ArrayBuffer"};
  if (buffer.ByteLength() == bytes) return buffer.Data();
  throw Error{kBadArg, std::string(name) + " must have " + std::to_string(bytes) +
                           " bytes for this configuration, got " + std::to_string(buffer.ByteLength())};
}

Napi::ArrayBuffer Call::fixed_buffer(Napi::Value value, const char* name, u64 bytes) {
  if (!value.IsArrayBuffer()) refuse(name, "an ArrayBuffer that is not shared", value);
  // Node-API cannot tell whether a buffer is resizable. If user code shadowed the property, the
  // size check of every call still protects the core.
  const Napi::Value resizable = read_property(value.As<Napi::Object>(), "resizable");
  if (resizable.IsBoolean() && resizable.As<Napi::Boolean>()) {
    throw Error{kBadArg, std::string(name) + " must be an ArrayBuffer of fixed length"};
  }
  buffer(value, name, bytes);
  return value.As<Napi::ArrayBuffer>();
}

Napi::Value Call::bigint(u64 low, u64 high) const {
  const u64 words[2] = {low, high};
  return Napi::BigInt::New(env, 0, 2, words);
}

Napi::Value read_property(Napi::Value object, const char* name) {
  napi_value value;
  require_ok(napi_get_named_property(object.Env(), object, name, &value));
  return {object.Env(), value};
}

void throw_error(Napi::Env env, const char* code, const std::string& message) {
  const auto* home = env.GetInstanceData<Environment>();
  if (!home || home->error_class.IsEmpty()) {
    napi_throw_error(env, code, message.c_str());
    return;
  }
  const napi_value arguments[] = {Napi::String::New(env, code), Napi::String::New(env, message)};
  napi_value error;
  const napi_status status = napi_new_instance(env, home->error_class.Value(), 2, arguments, &error);
  if (status == napi_ok) napi_throw(env, error);
}

}  // namespace blockstep
