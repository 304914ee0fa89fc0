// The methods of a core object. Each checks its arguments, makes one call of HostCore, and returns
// its answer. HostCore runs no JavaScript, so no method can interrupt another.
#include <algorithm>

#include "../base/backend.h"
#include "../base/call.h"
#include "device_tables.h"
#include "group_methods.h"

namespace blockstep {
namespace {

Napi::Value run(const Call& call) {
  HostCore& core = call.core();
  const HostConfig& config = core.config();
  const u32 frame = call.integer(0, "frame", 0, config.num_frames - 1);
  const u32 from = call.integer(1, "from", 0, config.max_entries);
  const u32 to = call.integer(2, "to", from, config.max_entries);
  return call.integer_value(static_cast<std::int32_t>(core.run(frame, from, to)));
}

Napi::Value add(const Call& call) {
  HostCore& core = call.core();
  const std::u16string adapter = call.string(1, "adapter");
  const std::u16string salt = call.string(2, "salt");
  const Span<std::int32_t> tokens = call.int32_array(0, "tokens");
  return call.number(static_cast<double>(core.add({tokens.data, tokens.size}, adapter, salt)));
}

Napi::Value match(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const u32 max_blocks = call.integer(1, "maxBlocks", 0, kMaxTokens);
  return call.number(core.match(slot, max_blocks));
}

Napi::Value admit(const Call& call) {
  HostCore& core = call.core();
  const HostConfig& config = core.config();
  const u32 slot = call.slot(0);
  const u32 hit_blocks = call.integer(1, "hitBlocks", 0, config.pool.max_blocks_per_row);
  const u32 reserve_tokens = call.integer(2, "reserveTokens", 0, config.max_model_len);
  const u32 need_tokens = call.integer(3, "needTokens", 0, config.max_model_len);
  const u32 publish_tokens = call.integer(4, "publishTokens", 0, kMaxTokens);
  const u32 spare_blocks = call.blocks(5, "spareBlocks", config.pool.num_blocks);
  const u32 reserved_blocks = call.blocks(6, "reservedBlocks", config.pool.num_blocks);
  return call.integer_value(
      core.admit(slot, hit_blocks, reserve_tokens, need_tokens, publish_tokens, spare_blocks, reserved_blocks));
}

Napi::Value submit_decision(const Call& call) {
  HostCore& core = call.core();
  const HostConfig& config = core.config();
  const u32 frame = call.integer(0, "frame", 0, config.num_frames - 1);
  const u32 from = call.integer(1, "from", 0, config.max_entries);
  const u32 to = call.integer(2, "to", from, config.max_entries);
  const Span<std::int32_t> request = call.int32_array(3, "request");
  core.submit_decision(frame, from, to, {request.data, request.size});
  return {};
}

Napi::Value poll_decision(const Call& call) {
  HostCore& core = call.core();
  return Napi::Boolean::New(call.env, core.poll_decision(call.int32_array(0, "answer")));
}

Napi::Value bind_tables(const Call& call) {
  const HostConfig& config = call.core().config();
  const u32 frame = call.integer(0, "frame", 0, config.num_frames - 1);
  const u32 max_tokens = call.integer(2, "maxTokens", 1, kMaxTokens);
  Napi::ArrayBuffer buffer = Call::fixed_buffer(call[1], "tables", call.core().tables_bytes(max_tokens));
  call.core().bind_tables(frame, buffer.Data(), max_tokens);
  call.object().hold_tables(frame, buffer);
  return {};
}

Napi::Value gather(const Call& call) {
  const CoreObject& object = call.object();
  HostCore& core = object.core();
  const u32 frame = call.integer(0, "frame", 0, core.config().num_frames - 1);
  const u32 num_entries = call.integer(1, "numEntries", 0, core.config().max_entries);
  object.check_tables(frame);
  core.gather(frame, num_entries);
  return {};
}

Napi::Value common_prefix(const Call& call) { return call.number(call.core().common_prefix(call.slot(0))); }

Napi::Value flush(const Call& call) {
  call.core().flush();
  return {};
}

template <void (HostCore::*Change)(Span<const std::int32_t>)>
Napi::Value change_ids(const Call& call) {
  HostCore& core = call.core();
  const Span<std::int32_t> ids = call.int32_array(0, "ids");
  (core.*Change)({ids.data, ids.size});
  return {};
}

Napi::Value reset(const Call& call) { return Napi::Boolean::New(call.env, call.core().reset()); }

Napi::Value handle(const Call& call) {
  return call.number(static_cast<double>(call.core().handle(call.slot(0))));
}

Napi::Value num_tokens(const Call& call) { return call.number(call.core().num_tokens(call.slot(0))); }

template <u32 (HostCore::*Read)(u32, u32, Span<std::int32_t>)>
Napi::Value read_slot(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const u32 from = call.integer(1, "from", 0, kMaxTokens);
  return call.number((core.*Read)(slot, from, call.int32_array(2, "out")));
}

template <u32 (HostCore::*Read)(Span<std::int32_t>)>
Napi::Value read_pool(const Call& call) {
  HostCore& core = call.core();
  return call.number((core.*Read)(call.int32_array(0, "out")));
}

template <u32 (HostCore::*Read)(u32)>
Napi::Value read_block(const Call& call) {
  HostCore& core = call.core();
  return call.number((core.*Read)(call.integer(0, "id", 0, core.config().pool.num_blocks - 1)));
}

Napi::Value block_hash(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const Key key = core.block_hash(slot, call.integer(1, "index", 0, kMaxTokens));
  return call.bigint(key.lo, key.hi);
}

Napi::Value published_hash(const Call& call) {
  HostCore& core = call.core();
  const std::optional<Key> key = core.published_key(call.integer(0, "id", 0, core.config().pool.num_blocks - 1));
  return key ? call.bigint(key->lo, key->hi) : call.env.Null();
}

Napi::Value verify(const Call& call) {
  call.core().verify();
  return {};
}

Napi::Value digest(const Call& call) { return call.bigint(call.core().digest()); }

Napi::Value rolling_digest(const Call& call) { return call.bigint(call.core().rolling_digest()); }

Napi::Value submit(const Call& call) {
  HostCore& core = call.core();
  core.submit(read_stream(call[0]));
  return {};
}

Napi::Value poll(const Call& call) { return Napi::Boolean::New(call.env, call.core().poll()); }

Napi::Value start_mirror_digest(const Call& call) {
  call.core().start_mirror_digest();
  return {};
}

Napi::Value mirror_digest(const Call& call) {
  const std::optional<u64> digest = call.core().mirror_digest();
  if (!digest) return call.env.Null();
  return call.bigint(*digest);
}

Napi::Value record(const Call& call) {
  HostCore& core = call.core();
  core.record(call.boolean(0, "on"));
  return {};
}

Napi::Value drain_log(const Call& call) {
  HostCore& core = call.core();
  const std::vector<u32>& log = core.recorded();
  auto array = Napi::Uint32Array::New(call.env, log.size());
  std::copy(log.begin(), log.end(), array.Data());
  core.forget_log();
  return array;
}

Napi::Value drain_kv_events(const Call& call) {
  HostCore& core = call.core();
  const std::vector<u32>& events = core.kv_events();
  auto array = Napi::Uint32Array::New(call.env, events.size());
  std::copy(events.begin(), events.end(), array.Data());
  core.forget_kv_events();
  return array;
}

Napi::Value memory(const Call& call) {
  const HostCore& core = call.core();
  const Config& pool = core.config().pool;
  const u64 pool_bytes = state_bytes({pool.num_blocks, 1, 1, pool.bucket_bits});
  const u64 bytes_per_block = (pool_bytes + pool.num_blocks - 1) / pool.num_blocks;
  const Device* device = core.mirror() ? &core.mirror()->device() : nullptr;
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("stateBytes", call.number(static_cast<double>(core.state_bytes()))),
      field("bytesPerBlock", call.number(static_cast<double>(bytes_per_block))),
      field("tableBytes", call.number(static_cast<double>(core.table_bytes()))),
      field("deviceBytes", call.number(device ? static_cast<double>(device->device_bytes()) : 0)),
      field("pinnedBytes", call.number(device ? static_cast<double>(device->pinned_bytes()) : 0)),
  });
  return result;
}

Napi::Value dispose_core(const Call& call) {
  call.object().dispose();
  return {};
}

}  // namespace

/// The methods are plain functions on the prototype, not methods of the class. For methods of the
/// class, V8 would refuse a wrong receiver with a TypeError that has no code.
Napi::Function CoreObject::define_class(Napi::Env env) {
  const Napi::Function core_class = DefineClass(env, "NativeCore", {});
  const auto prototype = core_class.Get("prototype").As<Napi::Object>();
  prototype.DefineProperties(device_table_methods(env));
  prototype.DefineProperties(group_methods(env));
  prototype.DefineProperties({
      method<run>(env, "run"),
      method<add>(env, "add"),
      method<match>(env, "match"),
      method<admit>(env, "admit"),
      method<submit_decision>(env, "submitDecision"),
      method<poll_decision>(env, "pollDecision"),
      method<common_prefix>(env, "commonPrefix"),
      method<bind_tables>(env, "bindTables"),
      method<gather>(env, "gather"),
      method<flush>(env, "flush"),
      method<change_ids<&HostCore::pin>>(env, "pin"),
      method<change_ids<&HostCore::unpin>>(env, "unpin"),
      method<change_ids<&HostCore::evict>>(env, "evict"),
      method<reset>(env, "reset"),
      method<handle>(env, "handle"),
      method<num_tokens>(env, "numTokens"),
      method<read_slot<&HostCore::read_tokens>>(env, "readTokens"),
      method<read_pool<&HostCore::read_free_queue>>(env, "readFreeQueue"),
      method<read_pool<&HostCore::read_published>>(env, "readPublished"),
      method<read_block<&HostCore::ref_count>>(env, "refCount"),
      method<read_block<&HostCore::block_generation>>(env, "blockGeneration"),
      method<block_hash>(env, "blockHash"),
      method<published_hash>(env, "publishedHash"),
      method<verify>(env, "verify"),
      method<digest>(env, "digest"),
      method<rolling_digest>(env, "rollingDigest"),
      method<submit>(env, "submit"),
      method<poll>(env, "poll"),
      method<start_mirror_digest>(env, "startMirrorDigest"),
      method<mirror_digest>(env, "mirrorDigest"),
      method<record>(env, "record"),
      method<drain_log>(env, "drainLog"),
      method<drain_kv_events>(env, "drainKvEvents"),
      method<memory>(env, "memory"),
      method<dispose_core>(env, "dispose"),
  });
  return core_class;
}

}  // namespace blockstep
