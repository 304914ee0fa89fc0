#include "transfer_objects.h"

#include "../base/backend.h"
#include "arena_object.h"

namespace blockstep {
namespace {

constexpr double kMaxStep = 9007199254740991.0;
constexpr u32 kDrainHeader = 2;

/// A step's number; -1 if there is none.
std::int64_t read_step(Napi::Value value, const char* name, double min) {
  double number;
  const bool is_number = napi_get_value_double(value.Env(), value, &number) == napi_ok;
  if (is_number && number >= min && number <= kMaxStep) {
    const auto step = static_cast<std::int64_t>(number);
    if (static_cast<double>(step) == number) return step;
  }
  Call::refuse(name, min < 0 ? "a step, or -1 for none" : "a step", value);
}

BlockList read_blocks(const Call& call, u32 index, const char* name) {
  const Span<std::int32_t> ids = call.int32_array(index, name);
  return {ids.data, ids.size};
}

Napi::Value begin(const Call& call) {
  CompletionRing& ring = receiver<CompletionRing>(call);
  const u32 job = ring.begin(false);
  if (job != 0) return call.number(job);
  throw Error{kRingFull, "all " + std::to_string(ring.capacity()) +
                             " slots of the completion queue are held by jobs: drain it, then begin again"};
}

Napi::Value post(const Call& call) {
  CompletionRing& ring = receiver<CompletionRing>(call);
  const u32 job = call.integer(0, "job", 1, CompletionRing::kMaxJob);
  const auto verdict = static_cast<Verdict>(call.integer(1, "verdict", 1, 3));
  return call.integer_value(static_cast<std::int32_t>(ring.post_foreign(job, verdict)));
}

/// Two words of counts, then the completions.
Napi::Value drain(const Call& call) {
  CompletionRing& ring = receiver<CompletionRing>(call);
  const Span<std::int32_t> out = call.int32_array(0, "out");
  if (out.size < kDrainHeader + 2) {
    throw Error{kBadArg, "out must have at least 4 elements, got " + std::to_string(out.size)};
  }
  const auto found = ring.drain(out.data + kDrainHeader, (out.size - kDrainHeader) / 2);
  out.data[0] = static_cast<std::int32_t>(found.after_reset);
  out.data[1] = static_cast<std::int32_t>(found.late);
  return call.number(found.pairs);
}

Napi::Value reset(const Call& call) { return call.number(receiver<CompletionRing>(call).reset()); }

Napi::Value in_flight(const Call& call) { return call.number(receiver<CompletionRing>(call).in_flight()); }

Napi::Value ring_counts(const Call& call) {
  CompletionRing& ring = receiver<CompletionRing>(call);
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("inFlight", call.number(ring.in_flight())),
      field("abandoned", call.number(ring.abandoned())),
      field("late", call.number(static_cast<double>(ring.late()))),
  });
  return result;
}

// The methods of every lane.

template <class LaneType>
Napi::Value submit(const Call& call) {
  LaneType& lane = receiver<LaneType>(call);
  const std::int64_t not_before = read_step(call[2], "notBefore", -1);
  return call.number(lane.submit(read_blocks(call, 0, "sources"), read_blocks(call, 1, "targets"), not_before));
}

template <class LaneType>
Napi::Value settle(const Call& call) {
  LaneType& lane = receiver<LaneType>(call);
  lane.settle(read_step(call[0], "step", 0));
  return {};
}

template <class LaneType>
Napi::Value cancel(const Call& call) {
  LaneType& lane = receiver<LaneType>(call);
  return Napi::Boolean::New(call.env, lane.cancel(call.integer(0, "job", 1, CompletionRing::kMaxJob)));
}

template <class LaneType>
Napi::Value flush(const Call& call) {
  LaneType& lane = receiver<LaneType>(call);
  const BlockList jobs = read_blocks(call, 0, "jobs");
  for (u32 i = 0; i < jobs.count; ++i) {
    if (jobs.ids[i] >= 1) continue;
    throw Error{kBadArg, "jobs[" + std::to_string(i) + "] must be a job, from 1, got " + std::to_string(jobs.ids[i])};
  }
  lane.flush(jobs);
  return {};
}

template <class LaneType>
Napi::Value fence(const Call& call) {
  receiver<LaneType>(call).fence();
  return {};
}

template <class LaneType>
Napi::Value lane_counts(const Call& call) {
  LaneType& lane = receiver<LaneType>(call);
  const Lane::Traffic traffic = lane.traffic();
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("pending", call.number(lane.pending())),
      field("waiting", call.number(lane.waiting())),
      field("bytes", call.number(static_cast<double>(traffic.bytes))),
      field("copies", call.number(static_cast<double>(traffic.copies))),
  });
  return result;
}

Napi::Value record_step(const Call& call) {
  DeviceLane& lane = receiver<DeviceLane>(call);
  const std::int64_t step = read_step(call[0], "step", 0);
  const std::optional<u64> stream = read_stream(call[1]);
  if (!stream) Call::refuse("stream", "a BigInt", call[1]);
  lane.record_step(step, *stream);
  return {};
}

Napi::Value lane_info(const Call& call) { return info_of(call, receiver<DeviceLane>(call).info()); }

/// Defines the class of a lane: the methods of every lane, and the additional methods of this kind.
template <class LaneType>
void define_lane(Napi::Env env, std::vector<Napi::PropertyDescriptor> methods) {
  methods.insert(methods.end(), {
                                    method<submit<LaneType>>(env, "submit"),
                                    method<settle<LaneType>>(env, "settle"),
                                    method<cancel<LaneType>>(env, "cancel"),
                                    method<flush<LaneType>>(env, "flush"),
                                    method<fence<LaneType>>(env, "fence"),
                                    method<lane_counts<LaneType>>(env, "counts"),
                                    method<dispose_receiver<LaneType>>(env, "dispose"),
                                });
  Wrapped<LaneType>::define(env, methods);
}

}  // namespace

Napi::Value create_ring(const Call& call) {
  auto ring = std::make_shared<CompletionRing>(call.integer(0, "capacity", 1, CompletionRing::kMaxCapacity));
  return Wrapped<CompletionRing>::make(call.home, std::move(ring), 0);
}

Napi::Value create_lane(const Call& call) {
  check_config(call[3]);
  HostLane::Options options{};
  options.threads = read_integer(call[3], "threads", 1, HostLane::kMaxThreads);
  options.piece_bytes = read_integer(call[3], "pieceBytes", 1, kNone);
  const auto& ring = Wrapped<CompletionRing>::argument(call, 0, "ring").owned();
  const auto& source = Wrapped<BlockArena>::argument(call, 1, "source").owned();
  const auto& target = Wrapped<BlockArena>::argument(call, 2, "target").owned();
  return Wrapped<HostLane>::make(call.home, std::make_shared<HostLane>(ring, source, target, options), 0);
}

Napi::Value create_cuda_lane(const Call& call) {
  check_config(call[3]);
  const auto& ring = Wrapped<CompletionRing>::argument(call, 0, "ring").owned();
  const auto& source = Wrapped<BlockArena>::argument(call, 1, "source").owned();
  const auto& target = Wrapped<BlockArena>::argument(call, 2, "target").owned();
  return Wrapped<DeviceLane>::make(call.home, open_device_lane(ring, source, target, call[3]), 0);
}

void define_transfer_classes(Napi::Env env) {
  Wrapped<CompletionRing>::define(env, {
                                           method<begin>(env, "begin"),
                                           method<post>(env, "post"),
                                           method<drain>(env, "drain"),
                                           method<reset>(env, "reset"),
                                           method<in_flight>(env, "inFlight"),
                                           method<ring_counts>(env, "counts"),
                                           method<dispose_receiver<CompletionRing>>(env, "dispose"),
                                       });
  define_lane<HostLane>(env, {});
  define_lane<DeviceLane>(env, {method<record_step>(env, "recordStep"), method<lane_info>(env, "info")});
}

}  // namespace blockstep
