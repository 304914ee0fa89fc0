// ContextObject: a runner as a JavaScript object. Answers are promises.
#pragma once

#include <napi.h>

#include <deque>
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
  Napi::Value dispose(const Napi::CallbackInfo& info);

  std::unique_ptr<Runner> runner_;  // null after it has ended
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
