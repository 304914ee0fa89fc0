#include "context_object.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "arguments.h"

namespace blockstep::llama {
namespace {

template <typename Array, typename Values>
Array copied(Napi::Env env, const Values& values) {
  Array array = Array::New(env, values.size());
  std::copy(values.begin(), values.end(), array.Data());
  return array;
}

SamplerConfig read_sampler(const Napi::Object& object) {
  SamplerConfig config;
  config.temperature = number(object, "temperature");
  config.top_k = integer(object, "topK");
  config.top_p = number(object, "topP");
  config.min_p = number(object, "minP");
  config.repetition_penalty = number(object, "repetitionPenalty");
  config.frequency_penalty = number(object, "frequencyPenalty");
  config.presence_penalty = number(object, "presencePenalty");
  config.seed = static_cast<uint64_t>(static_cast<int64_t>(number(object, "seed")));
  config.num_logprobs = integer(object, "numLogprobs");
  config.grammar = text(object, "grammar");
  config.prompt = int32s(object, "prompt");
  const auto tokens = int32s(object, "biasTokens");
  const auto biases = object.Get("biases").As<Napi::Float32Array>();
  for (std::size_t i = 0; i < tokens.size(); i++) config.bias.emplace_back(tokens[i], biases[i]);
  return config;
}

}  // namespace

Napi::Function ContextObject::define_class(Napi::Env env) {
  return DefineClass(env, "LlamaContext",
                     {InstanceMethod("compute", &ContextObject::compute),
                      InstanceMethod("next", &ContextObject::next),
                      InstanceMethod("endChain", &ContextObject::end_chain),
                      InstanceMethod("addSampler", &ContextObject::add_sampler),
                      InstanceMethod("dropSampler", &ContextObject::drop_sampler),
                      InstanceMethod("cells", &ContextObject::cells),
                      InstanceMethod("positions", &ContextObject::positions),
                      InstanceMethod("blockBytes", &ContextObject::block_bytes),
                      InstanceMethod("addArena", &ContextObject::add_arena),
                      InstanceMethod("dropArena", &ContextObject::drop_arena),
                      InstanceMethod("placeOf", &ContextObject::place_of),
                      InstanceMethod("copy", &ContextObject::copy),
                      InstanceMethod("waitForCopies", &ContextObject::wait_for_copies),
                      InstanceMethod("dispose", &ContextObject::dispose)});
}

ContextObject::ContextObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ContextObject>(info) {
  if (!info[0].IsExternal()) throw Napi::TypeError::New(info.Env(), "contexts are made by models");
  auto* given = info[0].As<Napi::External<std::unique_ptr<Runner>>>().Data();
  const auto nothing = Napi::Function::New(info.Env(), [](const Napi::CallbackInfo&) {});
  channel_ = Napi::ThreadSafeFunction::New(info.Env(), nothing, "blockstep.llama", 0, 1);
  channel_.Unref(info.Env());
  runner_ = std::move(*given);
  napi_add_env_cleanup_hook(info.Env(), end_with_environment, this);
}

ContextObject::~ContextObject() {
  if (runner_ != nullptr) napi_remove_env_cleanup_hook(Env(), end_with_environment, this);
  end();
}

void ContextObject::end_with_environment(void* self) { static_cast<ContextObject*>(self)->end(); }

void ContextObject::end() {
  if (runner_ == nullptr) return;
  runner_.reset();  // joins its thread, so that the channel is not called any more
  channel_.Release();
}

Runner& ContextObject::runner(Napi::Env env) const {
  if (runner_ == nullptr) throw Napi::Error::New(env, "the context was disposed");
  return *runner_;
}

Napi::Value ContextObject::compute(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Runner& runner = this->runner(env);
  if (is_busy()) throw Napi::Error::New(env, "a program is computed already");
  const auto program = info[0].As<Napi::Int32Array>();
  const std::size_t size = info[1].As<Napi::Number>().Uint32Value();
  if (size > program.ElementLength()) throw Napi::RangeError::New(env, "the program is longer than its array");
  const int chain = info[2].As<Napi::Number>().Int32Value();
  const auto done = [this](Answer answer) {
    auto* kept = new Answer(std::move(answer));
    const auto status = channel_.NonBlockingCall(kept, [this](Napi::Env own, Napi::Function, Answer* brought) {
      const std::unique_ptr<Answer> answer(brought);
      settle(own, *answer);
    });
    if (status != napi_ok) delete kept;  // the environment is ending
  };
  try {
    runner.compute(program.Data(), size, chain, done);
  } catch (const std::exception& error) {
    throw Napi::Error::New(env, error.what());
  }
  program_ = Napi::Persistent(program.As<Napi::Object>());
  self_ = Napi::Persistent(Value());
  channel_.Ref(env);
  goes_on_ = true;
  ready_.clear();
  waiting_.emplace(env);
  return waiting_->Promise();
}

Napi::Value ContextObject::next(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!ready_.empty()) {
    const Answer answer = std::move(ready_.front());
    ready_.pop_front();
    return read(env, answer);
  }
  if (!goes_on_ || waiting_.has_value()) throw Napi::Error::New(env, "no further answer comes");
  waiting_.emplace(env);
  return waiting_->Promise();
}

Napi::Value ContextObject::end_chain(const Napi::CallbackInfo& info) {
  if (runner_ != nullptr) runner_->end_chain();
  return info.Env().Undefined();
}

void ContextObject::settle(Napi::Env env, const Answer& answer) {
  const Napi::HandleScope scope(env);
  goes_on_ = answer.goes_on;
  const auto deferred = waiting_;
  waiting_.reset();
  if (!deferred.has_value()) ready_.push_back(answer);
  if (!goes_on_) {
    program_.Reset();
    self_.Reset();
    if (runner_ != nullptr) channel_.Unref(env);
  }
  if (deferred.has_value()) deferred->Resolve(read(env, answer));
}

Napi::Object ContextObject::read(Napi::Env env, const Answer& answer) {
  auto object = Napi::Object::New(env);
  object.Set("steps", answer.steps);
  object.Set("goesOn", answer.goes_on);
  object.Set("callsDone", answer.calls_done);
  object.Set("failure", answer.failure);
  object.Set("wasStopped", answer.was_stopped);
  object.Set("tokens", copied<Napi::Int32Array>(env, answer.tokens));
  object.Set("logprobs", copied<Napi::Float32Array>(env, answer.logprobs));
  return object;
}

Napi::Value ContextObject::add_sampler(const Napi::CallbackInfo& info) {
  Runner& runner = this->runner(info.Env());
  try {
    return Napi::Number::New(info.Env(), runner.add_sampler(read_sampler(info[0].As<Napi::Object>())));
  } catch (const std::runtime_error& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

Napi::Value ContextObject::drop_sampler(const Napi::CallbackInfo& info) {
  if (runner_ != nullptr) runner_->drop_sampler(info[0].As<Napi::Number>());
  return info.Env().Undefined();
}

Napi::Value ContextObject::cells(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), runner(info.Env()).cells());
}

Napi::Value ContextObject::positions(const Napi::CallbackInfo& info) {
  const Runner& runner = this->runner(info.Env());
  if (is_busy()) throw Napi::Error::New(info.Env(), "a program is computed");
  const auto [first, last] = runner.positions(info[0].As<Napi::Number>());
  auto pair = Napi::Array::New(info.Env(), 2);
  pair.Set(0u, first);
  pair.Set(1u, last);
  return pair;
}

const BlockCopier& ContextObject::copier(Napi::Env env) const {
  const auto* copier = runner(env).copier();
  if (copier == nullptr) throw Napi::Error::New(env, "the context copies no blocks");
  return *copier;
}

Napi::Value ContextObject::block_bytes(const Napi::CallbackInfo& info) {
  const auto* copier = runner(info.Env()).copier();
  return Napi::Number::New(info.Env(), copier == nullptr ? 0.0 : static_cast<double>(copier->block_bytes()));
}

Napi::Value ContextObject::add_arena(const Napi::CallbackInfo& info) {
  copier(info.Env());
  bool is_lossless = false;
  const uint64_t address = info[0].As<Napi::BigInt>().Uint64Value(&is_lossless);
  const auto num_blocks = info[1].As<Napi::Number>().Uint32Value();
  arenas_.emplace(next_arena_, Arena{reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address)), num_blocks});
  return Napi::Number::New(info.Env(), next_arena_++);
}

Napi::Value ContextObject::drop_arena(const Napi::CallbackInfo& info) {
  arenas_.erase(info[0].As<Napi::Number>().Int32Value());
  return info.Env().Undefined();
}

uint8_t* ContextObject::block_of(Napi::Env env, int arena, int block) const {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end()) throw Napi::Error::New(env, "there is no such arena");
  const auto place = static_cast<std::size_t>(block);
  if (block < 0 || place >= found->second.num_blocks) throw Napi::Error::New(env, "the arena has no such block");
  return found->second.first + place * copier(env).block_bytes();
}

Napi::Value ContextObject::place_of(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto& copier = this->copier(env);
  const uint8_t* block = block_of(env, info[0].As<Napi::Number>(), info[1].As<Napi::Number>());
  return Napi::Number::New(env, copier.place_of(block));
}

Napi::Value ContextObject::copy(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  copier(env);
  if (is_busy()) throw Napi::Error::New(env, "a program is computed already");
  const auto moves = info[0].As<Napi::Int32Array>();
  const std::size_t size = info[1].As<Napi::Number>().Uint32Value();
  if (size > moves.ElementLength() || size % 5 != 0) throw Napi::RangeError::New(env, "a list of moves is cut off");
  std::vector<Copy> list;
  const int sequences = runner_->sequences();
  for (std::size_t at = 0; at < size; at += 5) {
    const Move move{moves[at], moves[at + 1], moves[at + 2], moves[at + 3], moves[at + 4]};
    const bool has_block = move.kind == static_cast<int32_t>(Operation::kSave) || move.kind == static_cast<int32_t>(Operation::kLoad);
    const auto is_sequence = [sequences](int32_t sequence) { return sequence >= 0 && sequence < sequences; };
    if (!is_sequence(move.sequence) || (!has_block && !is_sequence(move.target)))
      throw Napi::RangeError::New(env, "there is no such sequence");
    // The target of a save and a load is a block, and their last number its arena.
    list.push_back({move, has_block ? block_of(env, move.to, move.target) : nullptr});
  }
  const auto copies = std::make_shared<Copies>(std::move(list));
  const Napi::Promise::Deferred deferred(env);
  const auto done = [this, copies, deferred] {
    channel_.NonBlockingCall([this, copies, deferred](Napi::Env own, Napi::Function) { settle_copies(own, *copies, deferred); });
  };
  copies_ = copies;
  runner_->copy(copies, done);
  self_ = Napi::Persistent(Value());
  channel_.Ref(env);
  return deferred.Promise();
}

Napi::Object ContextObject::ends_of(Napi::Env env, const Copies& copies) {
  auto object = Napi::Object::New(env);
  object.Set("ends", copied<Napi::Int32Array>(env, copies.ends()));
  object.Set("failure", copies.failure());
  return object;
}

void ContextObject::settle_copies(Napi::Env env, const Copies& copies, const Napi::Promise::Deferred& deferred) {
  const Napi::HandleScope scope(env);
  if (copies_.get() == &copies) copies_.reset();
  // Somebody may have waited for these copies, and begun other work meanwhile.
  if (!is_busy()) {
    self_.Reset();
    if (runner_ != nullptr) channel_.Unref(env);
  }
  deferred.Resolve(ends_of(env, copies));
}

Napi::Value ContextObject::wait_for_copies(const Napi::CallbackInfo& info) {
  if (runner_ == nullptr || copies_ == nullptr) return info.Env().Null();
  const auto copies = std::move(copies_);
  copies_.reset();
  copies->wait();
  return ends_of(info.Env(), *copies);
}

Napi::Value ContextObject::dispose(const Napi::CallbackInfo& info) {
  if (runner_ != nullptr) napi_remove_env_cleanup_hook(info.Env(), end_with_environment, this);
  end();
  return info.Env().Undefined();
}

}  // namespace blockstep::llama
