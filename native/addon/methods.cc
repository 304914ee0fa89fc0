// The methods of a core object: arguments in, one call of HostCore, its answer out. All arguments are checked before
// HostCore is entered, and HostCore runs no JavaScript, so no method can be interrupted by another.
#include <cstring>

#include "call.h"

namespace blockstep {
namespace {

napi_value run(const Call& call) {
  HostCore& core = call.core();
  const HostConfig& config = core.config();
  const u32 frame = call.integer(0, "frame", 0, config.num_frames - 1);
  const u32 from = call.integer(1, "from", 0, config.max_entries);
  const u32 to = call.integer(2, "to", from, config.max_entries);
  return call.integer_value(static_cast<std::int32_t>(core.run(frame, from, to)));
}

napi_value add(const Call& call) {
  HostCore& core = call.core();
  const std::u16string adapter = call.string(1, "adapter");
  const std::u16string salt = call.string(2, "salt");
  const Span<std::int32_t> tokens = call.int32_array(0, "tokens");
  return call.number(static_cast<double>(core.add({tokens.data, tokens.size}, adapter, salt)));
}

napi_value match(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const u32 max_blocks = call.integer(1, "maxBlocks", 0, kMaxTokens);
  return call.number(core.match(slot, max_blocks));
}

napi_value admit(const Call& call) {
  HostCore& core = call.core();
  const HostConfig& config = core.config();
  const u32 slot = call.slot(0);
  const u32 hit_blocks = call.integer(1, "hitBlocks", 0, config.pool.max_blocks_per_row);
  const u32 reserve_tokens = call.integer(2, "reserveTokens", 0, config.max_model_len);
  const u32 need_tokens = call.integer(3, "needTokens", 0, config.max_model_len);
  const u32 publish_tokens = call.integer(4, "publishTokens", 0, kMaxTokens);
  return call.integer_value(core.admit(slot, hit_blocks, reserve_tokens, need_tokens, publish_tokens));
}

napi_value common_prefix(const Call& call) { return call.number(call.core().common_prefix(call.slot(0))); }

napi_value flush(const Call& call) {
  call.core().flush();
  return nullptr;
}

template <void (HostCore::*Change)(Span<const std::int32_t>)>
napi_value change_ids(const Call& call) {
  HostCore& core = call.core();
  const Span<std::int32_t> ids = call.int32_array(0, "ids");
  (core.*Change)({ids.data, ids.size});
  return nullptr;
}

napi_value reset(const Call& call) { return call.boolean_value(call.core().reset()); }

napi_value handle(const Call& call) {
  return call.number(static_cast<double>(call.core().handle(call.slot(0))));
}

napi_value num_tokens(const Call& call) { return call.number(call.core().num_tokens(call.slot(0))); }

template <u32 (HostCore::*Read)(u32, u32, Span<std::int32_t>)>
napi_value read_slot(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const u32 from = call.integer(1, "from", 0, kMaxTokens);
  return call.number((core.*Read)(slot, from, call.int32_array(2, "out")));
}

template <u32 (HostCore::*Read)(Span<std::int32_t>)>
napi_value read_pool(const Call& call) {
  HostCore& core = call.core();
  return call.number((core.*Read)(call.int32_array(0, "out")));
}

template <u32 (HostCore::*Read)(u32)>
napi_value read_block(const Call& call) {
  HostCore& core = call.core();
  return call.number((core.*Read)(call.integer(0, "id", 0, core.config().pool.num_blocks - 1)));
}

napi_value block_hash(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const Key key = core.block_hash(slot, call.integer(1, "index", 0, kMaxTokens));
  return call.bigint(key.lo, key.hi);
}

napi_value verify(const Call& call) {
  call.core().verify();
  return nullptr;
}

napi_value digest(const Call& call) { return call.bigint(call.core().digest()); }

napi_value rolling_digest(const Call& call) { return call.bigint(call.core().rolling_digest()); }

napi_value record(const Call& call) {
  HostCore& core = call.core();
  core.record(call.boolean(0, "on"));
  return nullptr;
}

napi_value take_log(const Call& call) {
  HostCore& core = call.core();
  const std::vector<u32>& log = core.recorded();
  void* data;
  napi_value buffer;
  napi_value array;
  require_ok(napi_create_arraybuffer(call.env, log.size() * sizeof(u32), &data, &buffer));
  require_ok(napi_create_typedarray(call.env, napi_uint32_array, log.size(), buffer, 0, &array));
  if (!log.empty()) std::memcpy(data, log.data(), log.size() * sizeof(u32));
  core.forget_log();
  return array;
}

napi_value memory(const Call& call) {
  const HostCore& core = call.core();
  const Config& pool = core.config().pool;
  const u64 pool_bytes = state_bytes({pool.num_blocks, 1, 1, pool.bucket_bits});
  napi_value result;
  require_ok(napi_create_object(call.env, &result));
  const auto set = [&](const char* name, u64 bytes) {
    require_ok(napi_set_named_property(call.env, result, name, call.number(static_cast<double>(bytes))));
  };
  set("stateBytes", core.state_bytes());
  set("bytesPerBlock", (pool_bytes + pool.num_blocks - 1) / pool.num_blocks);
  set("tableBytes", core.table_bytes());
  return result;
}

napi_value dispose_core(const Call& call) {
  dispose(call.env, call.object());
  return nullptr;
}

constexpr napi_property_descriptor method(const char* name, napi_callback callback) {
  return {name, nullptr, callback, nullptr, nullptr, nullptr, napi_default, nullptr};
}

constexpr napi_property_descriptor kMethods[] = {
    method("run", entry<run>),
    method("add", entry<add>),
    method("match", entry<match>),
    method("admit", entry<admit>),
    method("commonPrefix", entry<common_prefix>),
    method("flush", entry<flush>),
    method("pin", entry<change_ids<&HostCore::pin>>),
    method("unpin", entry<change_ids<&HostCore::unpin>>),
    method("evict", entry<change_ids<&HostCore::evict>>),
    method("reset", entry<reset>),
    method("handle", entry<handle>),
    method("numTokens", entry<num_tokens>),
    method("readTokens", entry<read_slot<&HostCore::read_tokens>>),
    method("readBlocks", entry<read_slot<&HostCore::read_blocks>>),
    method("readFreeQueue", entry<read_pool<&HostCore::read_free_queue>>),
    method("readPublished", entry<read_pool<&HostCore::read_published>>),
    method("refCount", entry<read_block<&HostCore::ref_count>>),
    method("blockGeneration", entry<read_block<&HostCore::block_generation>>),
    method("blockHash", entry<block_hash>),
    method("verify", entry<verify>),
    method("digest", entry<digest>),
    method("rollingDigest", entry<rolling_digest>),
    method("record", entry<record>),
    method("takeLog", entry<take_log>),
    method("memory", entry<memory>),
    method("dispose", entry<dispose_core>),
};

napi_value construct(const Call& call) {
  if (!call.home->constructing) throw Error{kBadArg, "a native core is made by create(), not by its constructor"};
  return call.receiver;
}

}  // namespace

/// The methods are plain functions on the prototype, not methods of the class: V8 would refuse a wrong receiver of
/// those with a TypeError that has no code.
void define_core_class(napi_env env, Environment& home) {
  napi_value core_class;
  napi_value prototype;
  require_ok(napi_define_class(env, "NativeCore", NAPI_AUTO_LENGTH, entry<construct>, &home, 0, nullptr, &core_class));
  require_ok(napi_get_named_property(env, core_class, "prototype", &prototype));
  for (napi_property_descriptor descriptor : kMethods) {
    descriptor.data = &home;
    require_ok(napi_define_properties(env, prototype, 1, &descriptor));
  }
  require_ok(napi_create_reference(env, core_class, 1, &home.core_class));
}

}  // namespace blockstep
