// ContextObject: a runner as a JavaScript object. Answers are promises.
#pragma once

#include <napi.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "../runner.h"

namespace blockstep::llama {

class ContextObject : public Napi::ObjectWrap<ContextObject> {
 public:
  static Napi::Function define_class(Napi::Env env);

  explicit ContextObject(const Napi::CallbackInfo& info);
  ~ContextObject() override;

 private:
  /// Gives an answer to the promise that waits for it, or keeps it for `next`.
  void settle(Napi::Env env, const Answer& answer);
  static Napi::Object read(Napi::Env env, const Answer& answer);
  Runner& runner(Napi::Env env) const;
  /// A hook for Node: the environment ends before this object does.
  static void end_with_environment(void* self);
  /// Ends the runner's thread, and frees the context.
  void end();

  Napi::Value compute(const Napi::CallbackInfo& info);
  /// The next answer of the chain, at once or as a promise.
  Napi::Value next(const Napi::CallbackInfo& info);
  Napi::Value end_chain(const Napi::CallbackInfo& info);
  Napi::Value add_sampler(const Napi::CallbackInfo& info);
  Napi::Value drop_sampler(const Napi::CallbackInfo& info);
  Napi::Value cells(const Napi::CallbackInfo& info);
  Napi::Value positions(const Napi::CallbackInfo& info);
  Napi::Value block_bytes(const Napi::CallbackInfo& info);
  Napi::Value add_arena(const Napi::CallbackInfo& info);
  Napi::Value drop_arena(const Napi::CallbackInfo& info);
  Napi::Value place_of(const Napi::CallbackInfo& info);
  Napi::Value copy(const Napi::CallbackInfo& info);
  Napi::Value wait_for_copies(const Napi::CallbackInfo& info);
  Napi::Value dispose(const Napi::CallbackInfo& info);

  /// Memory of blocks, outside this addon. Its owner keeps it until it was dropped here.
  struct Arena {
    uint8_t* first;
    std::size_t num_blocks;
  };

  /// Whether the runner's thread works for an earlier call.
  bool is_busy() const { return goes_on_ || copies_ != nullptr; }
  const BlockCopier& copier(Napi::Env env) const;
  /// The memory of a block of an arena. @throws Napi::Error
  uint8_t* block_of(Napi::Env env, int arena, int block) const;
  void settle_copies(Napi::Env env, const Copies& copies, const Napi::Promise::Deferred& deferred);
  static Napi::Object ends_of(Napi::Env env, const Copies& copies);

  std::unique_ptr<Runner> runner_;  // null after it has ended
  std::map<int, Arena> arenas_;
  int next_arena_ = 0;
  /// The copies under way.
  std::shared_ptr<Copies> copies_;
  /// Passes answers to the JavaScript thread. It keeps the process alive only while a program is
  /// computed.
  Napi::ThreadSafeFunction channel_;
  std::optional<Napi::Promise::Deferred> waiting_;
  /// Whether more answers come. Answers that came before they were asked for are in `ready_`.
  bool goes_on_ = false;
  std::deque<Answer> ready_;
  // While a program is computed: the memory that the runner's thread reads, and this object.
  Napi::ObjectReference program_;
  Napi::ObjectReference self_;
};

}  // namespace blockstep::llama
