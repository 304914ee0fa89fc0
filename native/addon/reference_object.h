// The native part of a NativeReference: a wrapped ReferenceModel, with the lifetime rules of CoreObject.
#pragma once

#include "../reference/reference.h"
#include "call.h"

namespace blockstep {

class ReferenceObject : public Napi::ObjectWrap<ReferenceObject> {
 public:
  /// addon.createReference(): a new object of the environment's class.
  static Napi::Value create(const Call& call);

  /// Creates the class, with its methods on the prototype.
  static Napi::Function define_class(Napi::Env env);

  // For Napi::ObjectWrap: `new` and a call of the class. Both refuse everybody but create().
  explicit ReferenceObject(const Napi::CallbackInfo& info);
  static Napi::Value OnCalledAsFunction(const Napi::CallbackInfo& info);
  ~ReferenceObject();

  /// The receiver of a call. @throws Error kBadReceiver
  static ReferenceObject& receiver(const Call& call);
  /// @throws Error kDisposed
  ReferenceModel& model() const;
  /// Frees the memory now. Idempotent.
  void dispose();
  /// The environment ends before this object does.
  void orphan();

 private:
  static void refuse(Napi::Env env);
  /// Tells the garbage collector what this object weighs.
  void weigh(std::int64_t bytes);

  Environment* home_ = nullptr;  // null before create(), and once the environment has ended
  std::unique_ptr<ReferenceModel> model_;
  std::int64_t reported_bytes_ = 0;
};

}  // namespace blockstep
