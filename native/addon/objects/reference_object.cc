#include "reference_object.h"

#include "../../reference/memory/host_memory.h"
#include "../base/group_list.h"

namespace blockstep {
namespace {

Reads read_reads(Napi::Value value) {
  return static_cast<Reads>(Call::check_choice(value, "reads", {"all", "window", "chunk", "state"}));
}

/// Absent: no groups.
void read_groups(Napi::Value value, ReferenceConfig& config) {
  const u32 count = read_group_list(value, [&](u32 g, Napi::Value entry) {
    const auto integer = [&](const char* name, u32 min, u32 max) {
      return Call::check_integer(read_property(entry, name), name, min, max);
    };
    ReferenceGroup& group = config.groups[g];
    group.reads = read_reads(read_property(entry, "reads"));
    const bool spans = group.reads == Reads::kWindow || group.reads == Reads::kChunk;
    group.span = integer("span", spans ? 1 : 0, kMaxTokens);
    group.every_end = Call::check_boolean(read_property(entry, "everyEnd"), "everyEnd");
    group.zeroed = Call::check_boolean(read_property(entry, "zeroed"), "zeroed");
    GroupShape& shape = config.tables.groups[g];
    shape.block_size = integer("blockSize", 1, group.reads == Reads::kState ? kMaxTokens : config.block_size);
    shape.max_blocks_per_row = integer("maxBlocksPerRow", 1, kMaxBlocksPerRow);
  });
  if (count > 0) config.tables.num_groups = count;
}

}  // namespace

ReferenceConfig read_reference_config(Napi::Value value) {
  if (value.Type() != napi_object) Call::refuse("config", "an object", value);
  const auto integer = [&](const char* name, u32 min, u32 max) {
    return Call::check_integer(read_property(value, name), name, min, max);
  };
  ReferenceConfig config{};
  config.num_blocks = integer("numBlocks", 2, kMaxBlocks);
  config.block_size = integer("blockSize", 1, 1u << 16);
  config.tables.max_tokens = integer("maxTokens", 1, kMaxTokens);
  config.tables.max_entries = integer("maxEntries", 1, 1u << 20);
  config.tables.max_blocks_per_row = integer("maxBlocksPerRow", 1, kMaxBlocksPerRow);
  config.max_drafts = integer("maxDrafts", 0, 64);
  config.pipeline_depth = integer("pipelineDepth", 1, 3);
  config.seed = integer("seed", 0, kNone);
  const u32 eos_token = integer("eosToken", 0, kMaxTokens);  // kMaxTokens: none
  config.eos_token = eos_token == kMaxTokens ? -1 : static_cast<std::int32_t>(eos_token);
  config.wrong_drafts = integer("wrongDrafts", 0, kNone);
  config.report_only = Call::check_boolean(read_property(value, "reportOnly"), "reportOnly");
  read_groups(read_property(value, "groups"), config);
  return config;
}

namespace {

Napi::Value step(const Call& call) {
  ReferenceModel& model = receiver<ReferenceModel>(call);
  const ReferenceConfig& config = model.config();
  void* io = Call::buffer(call[0], "io", step_io_bytes(config));
  void* tables = Call::buffer(call[1], "tables", tables_bytes(config.tables));
  const Span<std::int32_t> known = call.int32_array(2, "known");
  const Span<std::int32_t> zeroed = call[3].IsUndefined() ? Span<std::int32_t>{nullptr, 0} : call.int32_array(3, "zeroed");
  if (io == tables) throw Error{kBadArg, "io must be another ArrayBuffer than tables, got the same"};
  model.step(lay_out_step(config, io), lay_out_tables(config.tables, tables), {known.data, known.size},
             {zeroed.data, zeroed.size});
  return {};
}

Napi::Value adopt(const Call& call) {
  ReferenceModel& model = receiver<ReferenceModel>(call);
  const u64 handle = Call::check_handle(call[0], "handle");
  const Span<std::int32_t> blocks = call.int32_array(1, "blocks");
  model.adopt(handle, {blocks.data, blocks.size});
  return {};
}

/// The arena of the reference. It reports no memory to the garbage collector, because the reference
/// reports it.
Napi::Value arena(const Call& call) {
  return Wrapped<BlockArena>::make(call.home, receiver<ReferenceModel>(call).blocks(), 0);
}

Napi::Value memory(const Call& call) {
  const ReferenceModel& model = receiver<ReferenceModel>(call);
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("arenaBytes", call.number(static_cast<double>(model.arena_bytes()))),
      field("numSequences", call.number(model.num_sequences())),
  });
  return result;
}

}  // namespace

Napi::Value create_reference(const Call& call) {
  const ReferenceConfig config = read_reference_config(call[0]);
  auto memory = std::make_unique<HostMemory>(
      config.block_size, allocate_host_arena(call[0], config.num_blocks, u64{config.block_size} * sizeof(KvEntry)));
  auto model = std::make_shared<ReferenceModel>(config, std::move(memory));
  const u64 bytes = model->arena_bytes();
  return Wrapped<ReferenceModel>::make(call.home, std::move(model), bytes);
}

void define_reference_class(Napi::Env env) {
  Wrapped<ReferenceModel>::define(env, {
                                           method<step>(env, "step"),
                                           method<adopt>(env, "adopt"),
                                           method<arena>(env, "arena"),
                                           method<memory>(env, "memory"),
                                           method<dispose_receiver<ReferenceModel>>(env, "dispose"),
                                       });
}

}  // namespace blockstep
