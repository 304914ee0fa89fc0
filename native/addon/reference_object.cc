#include "reference_object.h"

namespace blockstep {
namespace {

/// NativeReferenceConfig of src/core/native-reference.ts, checked. Its getters may run JavaScript.
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
  const u32 eos_token = integer("eosToken", 0, kMaxTokens);  // kMaxTokens, which is no token id: none
  config.eos_token = eos_token == kMaxTokens ? -1 : static_cast<std::int32_t>(eos_token);
  config.wrong_drafts = integer("wrongDrafts", 0, kNone);
  config.report_only = Call::check_boolean(read_property(value, "reportOnly"), "reportOnly");
  return config;
}

Napi::Value step(const Call& call) {
  ReferenceModel& model = ReferenceObject::receiver(call).model();
  const ReferenceConfig& config = model.config();
  void* io = Call::buffer(call[0], "io", step_io_bytes(config));
  void* tables = Call::buffer(call[1], "tables", tables_bytes(config.tables));
  const Span<std::int32_t> known = call.int32_array(2, "known");
  if (io == tables) throw Error{kBadArg, "io must be another ArrayBuffer than tables"};
  model.step(lay_out_step(config, io), lay_out_tables(config.tables, tables), {known.data, known.size});
  return {};
}

Napi::Value memory(const Call& call) {
  const ReferenceModel& model = ReferenceObject::receiver(call).model();
  auto result = Napi::Object::New(call.env);
  result.DefineProperties({
      field("arenaBytes", call.number(static_cast<double>(model.arena_bytes()))),
      field("numSequences", call.number(model.num_sequences())),
  });
  return result;
}

Napi::Value dispose_reference(const Call& call) {
  ReferenceObject::receiver(call).dispose();
  return {};
}

}  // namespace

Napi::Value ReferenceObject::create(const Call& call) {
  auto model = std::make_unique<ReferenceModel>(read_reference_config(call[0]));
  const Raised constructing(call.home.constructing);
  const Napi::Object instance = call.home.reference_class.New({});
  ReferenceObject& object = *Unwrap(instance);
  call.home.references.insert(&object);
  object.home_ = &call.home;
  object.model_ = std::move(model);
  object.weigh(static_cast<std::int64_t>(object.model_->arena_bytes()));
  return instance;
}

Napi::Function ReferenceObject::define_class(Napi::Env env) {
  const Napi::Function reference_class = DefineClass(env, "NativeReference", {});
  reference_class.Get("prototype").As<Napi::Object>().DefineProperties({
      method<step>(env, "step"),
      method<memory>(env, "memory"),
      method<dispose_reference>(env, "dispose"),
  });
  return reference_class;
}

ReferenceObject::ReferenceObject(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  if (!info.Env().GetInstanceData<Environment>()->constructing) refuse(info.Env());
}

Napi::Value ReferenceObject::OnCalledAsFunction(const Napi::CallbackInfo& info) {
  refuse(info.Env());
  return {};
}

void ReferenceObject::refuse(Napi::Env env) {
  throw_error(env, kBadArg, "a native reference is made by createReference(), not by its constructor");
}

ReferenceObject::~ReferenceObject() {
  if (!home_) return;
  dispose();
  home_->references.erase(this);
}

ReferenceObject& ReferenceObject::receiver(const Call& call) {
  void* wrapped = nullptr;
  const napi_status status = napi_unwrap(call.env, call.receiver(), &wrapped);
  auto* object = static_cast<ReferenceObject*>(wrapped);  // only an address until it is found to be one of ours
  if (status != napi_ok || call.home.references.count(object) == 0) {
    throw Error{kBadReceiver, "this method needs a native reference as its receiver"};
  }
  return *object;
}

ReferenceModel& ReferenceObject::model() const {
  if (!model_) throw Error{kDisposed, "the reference executor was disposed"};
  return *model_;
}

void ReferenceObject::dispose() {
  if (!model_) return;
  model_.reset();
  weigh(0);
}

void ReferenceObject::orphan() {
  dispose();
  home_ = nullptr;
}

void ReferenceObject::weigh(std::int64_t bytes) {
  Napi::MemoryManagement::AdjustExternalMemory(Env(), bytes - reported_bytes_);
  reported_bytes_ = bytes;
}

}  // namespace blockstep
