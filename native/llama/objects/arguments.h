// Arguments: reads the arguments from TypeScript. TypeScript has checked everything, so an error
// here is a bug of blockstep.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

namespace blockstep::llama {

inline double number(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (!value.IsNumber()) throw Napi::TypeError::New(object.Env(), std::string(name) + " must be a number");
  return value.As<Napi::Number>().DoubleValue();
}

inline int integer(const Napi::Object& object, const char* name) { return static_cast<int>(number(object, name)); }

inline bool boolean(const Napi::Object& object, const char* name) { return object.Get(name).ToBoolean(); }

inline std::string text(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (!value.IsString()) throw Napi::TypeError::New(object.Env(), std::string(name) + " must be a string");
  return value.As<Napi::String>();
}

inline std::vector<std::string> texts(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (!value.IsArray()) throw Napi::TypeError::New(object.Env(), std::string(name) + " must be an array");
  const auto array = value.As<Napi::Array>();
  std::vector<std::string> all;
  for (uint32_t i = 0; i < array.Length(); i++) all.push_back(array.Get(i).As<Napi::String>());
  return all;
}

inline std::vector<int32_t> int32s(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array)
    throw Napi::TypeError::New(object.Env(), std::string(name) + " must be an Int32Array");
  const auto array = value.As<Napi::Int32Array>();
  return {array.Data(), array.Data() + array.ElementLength()};
}

}  // namespace blockstep::llama
