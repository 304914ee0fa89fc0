#include "group_methods.h"

#include <algorithm>

#include "../base/backend.h"

namespace blockstep {
namespace {

Napi::Value begin_step(const Call& call) {
  call.core().begin_step();
  return {};
}

Napi::Value match_groups(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  return call.number(core.match_groups(slot, call.integer(1, "maxTokens", 0, kMaxTokens)));
}

/// The arguments from the second one on.
GroupAdmission read_admission(const Call& call, const HostConfig& config) {
  const u32 most = config.max_model_len;
  GroupAdmission asked{};
  asked.hit = call.integer(1, "hitTokens", 0, most);
  asked.external = call.integer(2, "externalTokens", 0, most);
  asked.computed = call.integer(3, "computedTokens", 0, most);
  asked.scheduled = call.integer(4, "scheduledTokens", 0, most);
  asked.lookahead = call.integer(5, "lookahead", 0, 1u << 16);
  asked.reserve = call.integer(6, "reserveTokens", 0, most);
  return asked;
}

Napi::Value admit_groups(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  GroupAdmission asked = read_admission(call, core.config());
  asked.publishes = call.boolean(7, "publishes");
  asked.spare_blocks = call.blocks(8, "spareBlocks", core.config().pool.num_blocks);
  asked.reserved_blocks = call.blocks(9, "reservedBlocks", core.config().pool.num_blocks);
  asked.prompt = call[11].IsUndefined() ? 0 : call.integer(11, "promptTokens", 0, core.config().max_model_len);
  asked.in_flight = call[10].IsUndefined() ? 0 : call.integer(10, "inFlightTokens", 0, core.config().max_model_len);
  return call.integer_value(core.admit_groups(slot, asked));
}

Napi::Value needed_groups(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const u32 num_groups = core.config().pool.num_groups;
  const GroupAdmission asked = read_admission(call, core.config());
  NeededBlocks needed{};
  if (core.needed_groups(slot, asked, needed) == GroupAdmissions::kUnready) return call.env.Null();
  auto array = Napi::Float64Array::New(call.env, num_groups);
  std::copy_n(needed.begin(), num_groups, array.Data());
  return array;
}

Napi::Value common_prefix_groups(const Call& call) {
  call.core().common_prefix_groups();
  return {};
}

Napi::Value drop_groups(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  core.drop_groups(slot, call.integer(1, "computedTokens", 0, kMaxTokens));
  return {};
}

Napi::Value array_of(const Call& call, const std::vector<u32>& ids) {
  auto array = Napi::Int32Array::New(call.env, ids.size());
  std::copy(ids.begin(), ids.end(), array.Data());
  return array;
}

Napi::Value junction(const Call& call) {
  HostCore& core = call.core();
  return call.number(core.junction(call.slot(0)));
}

Napi::Value drain_zeroed(const Call& call) { return array_of(call, call.core().drain_zeroed()); }

/// Null if no block was dropped. Most steps drop none, and must not allocate.
Napi::Value drain_dropped(const Call& call) {
  const std::vector<u32> ids = call.core().drain_dropped();
  return ids.empty() ? call.env.Null() : array_of(call, ids);
}

Napi::Value read_group_blocks(const Call& call) {
  HostCore& core = call.core();
  const u32 slot = call.slot(0);
  const u32 from = call.integer(1, "from", 0, kMaxTokens);
  const u32 group = call[3].IsUndefined() ? 0 : call.integer(3, "group", 0, core.config().pool.num_groups - 1);
  return call.number(core.read_blocks(slot, from, call.int32_array(2, "out"), group));
}

Napi::Value published_group(const Call& call) {
  HostCore& core = call.core();
  return call.number(core.published_group(call.integer(0, "id", 0, core.config().pool.num_blocks - 1)));
}

Napi::Value groups_of_blocks(const Call& call) {
  const std::vector<u8> groups = call.core().groups_of_blocks();
  auto array = Napi::Uint8Array::New(call.env, groups.size());
  std::copy(groups.begin(), groups.end(), array.Data());
  return array;
}

/// Four numbers for each group, in the order of GroupCount.
Napi::Value count_groups(const Call& call) {
  const std::vector<GroupCount> counts = call.core().count_groups();
  auto array = Napi::Float64Array::New(call.env, 4 * counts.size());
  double* next = array.Data();
  for (const GroupCount& count : counts) {
    for (u64 value : {count.used, count.cached, count.nulls, count.dropped}) *next++ = static_cast<double>(value);
  }
  return array;
}

}  // namespace

std::vector<Napi::PropertyDescriptor> group_methods(Napi::Env env) {
  return {
      method<begin_step>(env, "beginStep"),
      method<match_groups>(env, "matchGroups"),
      method<admit_groups>(env, "admitGroups"),
      method<needed_groups>(env, "neededGroups"),
      method<common_prefix_groups>(env, "commonPrefixGroups"),
      method<drop_groups>(env, "dropGroups"),
      method<junction>(env, "junction"),
      method<drain_zeroed>(env, "drainZeroed"),
      method<drain_dropped>(env, "drainDropped"),
      method<read_group_blocks>(env, "readBlocks"),
      method<published_group>(env, "publishedGroup"),
      method<groups_of_blocks>(env, "groupsOfBlocks"),
      method<count_groups>(env, "countGroups"),
  };
}

}  // namespace blockstep
