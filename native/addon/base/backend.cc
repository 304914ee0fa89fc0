#include "backend.h"

#if !defined(BLOCKSTEP_CUDA)
#define BLOCKSTEP_CUDA 0
#endif
#if BLOCKSTEP_CUDA
#include "../../cuda/base/backend.h"
#endif

namespace blockstep {
namespace {

constexpr u32 kMaxGpus = 1024;
constexpr u32 kMaxLogs = 64;
constexpr u32 kMaxPatienceMs = 3600000;

#if !BLOCKSTEP_CUDA
namespace cuda {

struct Options {
  u32 device = 0;
  std::optional<u64> stream;
  u32 max_logs = 0;
  bool launch_thread = false;
  bool decides = false;
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
std::unique_ptr<DeviceLane> open_lane(const std::shared_ptr<CompletionRing>&, const std::shared_ptr<BlockArena>&,
                                      const std::shared_ptr<BlockArena>&, const DeviceLaneOptions&) {
  throw Error{kCuda, kNotBuilt};
}
std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig&, u32) { throw Error{kCuda, kNotBuilt}; }

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

/// Names of the values of an enumeration, from 0.
template <std::size_t Count>
using Names = const char* const (&)[Count];

constexpr const char* kPlaces[] = {"host", "pinned", "device"};
constexpr const char* kModes[] = {"auto", "batch", "kernel", "copies"};
constexpr const char* kCompletions[] = {"auto", "write-value", "event"};

/// The number of a value's name. Absent: 0.
template <std::size_t Count>
u32 read_name(Napi::Value object, const char* property, Names<Count> names) {
  const Napi::Value value = read_property(object, property);
  if (absent(value)) return 0;
  std::string expected;
  const std::string name = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  for (u32 i = 0; i < Count; ++i) {
    if (value.IsString() && name == names[i]) return i;
    expected += std::string(i == 0 ? "'" : i + 1 < Count ? ", '" : " or '") + names[i] + "'";
  }
  Call::refuse(property, expected, value);
}

u64 read_bytes(Napi::Value object, const char* property) {
  constexpr double kMax = 9007199254740991.0;
  const Napi::Value value = read_property(object, property);
  double number;
  if (napi_get_value_double(value.Env(), value, &number) == napi_ok && number >= 1 && number <= kMax) {
    const auto bytes = static_cast<u64>(number);
    if (static_cast<double>(bytes) == number) return bytes;
  }
  Call::refuse(property, "an integer from 1 to 2^53 - 1", value);
}

}  // namespace

u32 read_device(Napi::Value value, const char* name) { return Call::check_integer(value, name, 0, kMaxGpus - 1); }

std::unique_ptr<BlockMemory> allocate_blocks(Napi::Value configuration, u64 bytes) {
  const auto place = static_cast<Place>(read_name(configuration, "place", kPlaces));
  const Napi::Value device = read_property(configuration, "device");
  return cuda::allocate_blocks(place, absent(device) ? 0 : read_device(device, "device"), bytes);
}

std::unique_ptr<DeviceLane> open_device_lane(const std::shared_ptr<CompletionRing>& ring,
                                             const std::shared_ptr<BlockArena>& source,
                                             const std::shared_ptr<BlockArena>& target, Napi::Value configuration) {
  DeviceLaneOptions options;
  options.mode = static_cast<CopyMode>(read_name(configuration, "mode", kModes));
  options.completion = static_cast<CompletionMode>(read_name(configuration, "completion", kCompletions));
  options.window_bytes = read_bytes(configuration, "windowBytes");
  options.patience_ms = Call::check_integer(read_property(configuration, "patienceMs"), "patienceMs", 1, kMaxPatienceMs);
  return cuda::open_lane(ring, source, target, options);
}

Napi::Object info_of(const Call& call, const DeviceLaneInfo& info) {
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("device", call.number(info.device)),
      field("mode", Napi::String::New(call.env, kModes[static_cast<u32>(info.mode)])),
      field("completion", Napi::String::New(call.env, kCompletions[static_cast<u32>(info.completion)])),
  });
  return result;
}

std::shared_ptr<DeviceReference> open_reference(const ReferenceConfig& config, u32 device) {
  return cuda::open_reference(config, device);
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
  if (!lossless) Call::refuse("stream", "an address, from 0n to 2n ** 64n - 1n", value);
  return stream;
}

MirrorRequest open_mirror(Napi::Value configuration, const HostConfig& config) {
  const Napi::Value wanted = read_property(configuration, "cuda");
  const bool decides = config.authority == Authority::kDevice;
  if (absent(wanted) && decides) throw Error{kBadArg, "authority must be host without cuda, got device"};
  if (absent(wanted)) return {};
  if (wanted.Type() != napi_object) Call::refuse("cuda", "an object", wanted);
  cuda::Options options;
  options.device = read_device(read_property(wanted, "device"), "cuda.device");
  options.max_logs = Call::check_integer(read_property(wanted, "maxLogs"), "cuda.maxLogs", 1, kMaxLogs);
  options.stream = read_stream(read_property(wanted, "stream"));
  const Napi::Value thread = read_property(wanted, "launchThread");
  if (!absent(thread) && thread.Type() != napi_boolean) Call::refuse("cuda.launchThread", "a boolean", thread);
  options.launch_thread = !absent(thread) && thread.As<Napi::Boolean>().Value();
  if (options.launch_thread && options.stream) {
    throw Error{kBadArg, "cuda.launchThread must be false beside a stream of the executor, got true: two threads would queue there"};
  }
  options.decides = decides;
  return {cuda::open(config.pool, options), options.max_logs};
}

}  // namespace blockstep
