// AsyncTask: work in a thread of libuv's pool, with its result as a promise.
#pragma once

#include <napi.h>

#include <functional>
#include <utility>

namespace blockstep::llama {

/// `work` runs in the pool, `finish` in the JavaScript thread. An exception of `work` rejects the
/// promise with its message.
class AsyncTask : public Napi::AsyncWorker {
 public:
  using Work = std::function<void()>;
  using Finish = std::function<Napi::Value(Napi::Env)>;

  static Napi::Promise start(Napi::Env env, Work work, Finish finish, Work always = [] {}) {
    auto* task = new AsyncTask(env, std::move(work), std::move(finish), std::move(always));
    const Napi::Promise promise = task->deferred_.Promise();
    task->Queue();
    return promise;
  }

 protected:
  void Execute() override { work_(); }

  void OnOK() override {
    always_();
    deferred_.Resolve(finish_(Env()));
  }

  void OnError(const Napi::Error& error) override {
    always_();
    deferred_.Reject(error.Value());
  }

 private:
  AsyncTask(Napi::Env env, Work work, Finish finish, Work always)
      : Napi::AsyncWorker(env),
        deferred_(env),
        work_(std::move(work)),
        finish_(std::move(finish)),
        always_(std::move(always)) {}

  Napi::Promise::Deferred deferred_;
  Work work_;
  Finish finish_;
  Work always_;
};

}  // namespace blockstep::llama
