#include "backend.h"

#if !defined(BLOCKSTEP_CUDA)
#define BLOCKSTEP_CUDA 0
#endif
#if BLOCKSTEP_CUDA
#include "../cuda/backend.h"
#endif

namespace blockstep {
namespace {

constexpr u32 kMaxGpus = 1024;
constexpr u32 kMaxLogs = 64;

#if !BLOCKSTEP_CUDA
namespace cuda {

struct Options {
  u32 device = 0;
  std::optional<u64> stream;
  u32 max_logs = 0;
};
struct Probe {
  bool usable;
  std::string reason;
};

constexpr const char* kNotBuilt = "this build of the addon has no CUDA back end";
Probe probe(u32) { return {false, kNotBuilt}; }
std::unique_ptr<Device> open(const Config&, const Options&) { throw Error{kCuda, kNotBuilt}; }
std::unique_ptr<BlockMemory> allocate_blocks(Place place, u32, u64 bytes) {
  if (place == Place::kHost) return std::make_unique<HostBlocks>(bytes);
  throw Error{kCuda, kNotBuilt};
}

}  // namespace cuda
#endif

Napi::Object entry_of(Napi::Env env, const char* name, bool usable, const std::string& reason) {
  auto object = Napi::Object::New(env);
  object.DefineProperties({
      field("name", Napi::String::New(env, name)),
      field("usable", Napi::Boolean::New(env, usable)),
      field("reason", Napi::String::New(env, reason)),
  });
  return object;
}

bool absent(Napi::Value value) { return value.IsUndefined() || value.IsNull(); }

Place read_place(Napi::Value value) {
  if (absent(value)) return Place::kHost;
  if (value.IsString()) {
    const std::string name = value.As<Napi::String>();
    if (name == "host") return Place::kHost;
    if (name == "pinned") return Place::kPinned;
    if (name == "device") return Place::kDevice;
  }
  Call::refuse("place", "'host', 'pinned' or 'device'", value);
}

}  // namespace

u32 read_device(Napi::Value value, const char* name) { return Call::check_integer(value, name, 0, kMaxGpus - 1); }

std::unique_ptr<BlockMemory> allocate_blocks(Napi::Value configuration, u64 bytes) {
  const Place place = read_place(read_property(configuration, "place"));
  const Napi::Value device = read_property(configuration, "device");
  return cuda::allocate_blocks(place, absent(device) ? 0 : read_device(device, "device"), bytes);
}

Napi::Value probe_backends(const Call& call) {
  const cuda::Probe found = cuda::probe(read_device(call[0], "device"));
  auto list = Napi::Array::New(call.env, 2);
  list.Set(0u, entry_of(call.env, "host", true, "always there"));
  list.Set(1u, entry_of(call.env, "cuda", found.usable, found.reason));
  return list;
}

Napi::Value backend_names(Napi::Env env) {
  const auto names = Napi::Array::New(env, BLOCKSTEP_CUDA ? 2 : 1);
  names.Set(0u, "host");
  if (BLOCKSTEP_CUDA) names.Set(1u, "cuda");
  names.Freeze();
  return names;
}

std::optional<u64> read_stream(Napi::Value value) {
  if (absent(value)) return {};
  if (!value.IsBigInt()) Call::refuse("stream", "a BigInt or nothing", value);
  bool lossless = false;
  const u64 stream = value.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) throw Error{kBadArg, "stream must be an address, from 0n to 2n ** 64n - 1n"};
  return stream;
}

MirrorRequest open_mirror(Napi::Value configuration, const Config& pool) {
  const Napi::Value wanted = read_property(configuration, "cuda");
  if (absent(wanted)) return {};
  if (wanted.Type() != napi_object) Call::refuse("cuda", "an object", wanted);
  cuda::Options options;
  options.device = read_device(read_property(wanted, "device"), "cuda.device");
  options.max_logs = Call::check_integer(read_property(wanted, "maxLogs"), "cuda.maxLogs", 1, kMaxLogs);
  options.stream = read_stream(read_property(wanted, "stream"));
  return {cuda::open(pool, options), options.max_logs};
}

}  // namespace blockstep
