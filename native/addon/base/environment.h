// Environment: the data of one loaded copy of the addon in one Node environment (the main thread or
// a worker). There is no static mutable state, so environments and copies of the addon share no
// state.
#pragma once

#include <napi.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../../host/core.h"

namespace blockstep {

class CoreObject;

/// Keeps a flag true while this object lives.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) { flag_ = true; }
  ~Raised() { flag_ = false; }

 private:
  bool& flag_;
};

/// A wrapped object that can outlive its environment.
class Orphan {
 public:
  /// Called when the environment ends before this object does.
  virtual void orphan() = 0;

 protected:
  ~Orphan() = default;
};

/// One class of wrapped objects (wrapped.h). A receiver or an argument is an object of this class
/// exactly if its wrap is in `live`.
struct WrapClass {
  Napi::FunctionReference constructor;
  std::unordered_map<const void*, Orphan*> live;
};

struct Environment {
  /// Frees the remaining objects. Node finalizes wraps before instance data, but does not guarantee
  /// this order.
  ~Environment();

  Napi::FunctionReference core_class;
  Napi::FunctionReference error_class;  // empty: errors are plain Error objects
  bool constructing = false;            // make() is running; otherwise constructors refuse the call
  /// Every wrapped core. A receiver is a core of this environment exactly if its wrap is in this
  /// set. A wrap of another addon, of another copy of this addon or of another environment has
  /// another address. This check is as safe as a type tag, and 60 ns per call cheaper.
  std::unordered_set<CoreObject*> live;
  CoreObject* recent = nullptr;  // the core that was last found in `live`
  // Members are destroyed in reverse order, so lanes stop before the rings and arenas that they use
  // are destroyed.
  WrapClass arenas;
  WrapClass rings;
  WrapClass references;
  WrapClass device_references;
  WrapClass lanes;
  WrapClass device_lanes;
};

/// The native part of a NativeCore. The JavaScript object owns this object. The core inside is
/// freed at dispose() or when the environment ends, whichever comes first.
class CoreObject : public Napi::ObjectWrap<CoreObject> {
 public:
  /// Wraps a new core, and keeps its exchange buffer alive while the core lives.
  static Napi::Object make(Environment& home, std::unique_ptr<HostCore> core, Napi::ArrayBuffer exchange);

  /// Creates the class, with the methods of methods.cc on its prototype.
  static Napi::Function define_class(Napi::Env env);

  // For Napi::ObjectWrap: `new` and a call of the class. Both throw unless make() is running.
  explicit CoreObject(const Napi::CallbackInfo& info);
  static Napi::Value OnCalledAsFunction(const Napi::CallbackInfo& info);
  ~CoreObject();

  /// @throws Error kDisposed, kDetached
  HostCore& core() const;

  /// Keeps the buffer of a frame's tables alive while the core lives.
  void hold_tables(u32 frame, Napi::ArrayBuffer buffer) { tables_[frame].hold(buffer); }
  /// @throws Error kDetached if the frame's tables are no longer the memory that was bound
  void check_tables(u32 frame) const;

  /// Frees the core now. Idempotent.
  void dispose();

  /// Called when the environment ends before this object does.
  void orphan();

 private:
  static void refuse(Napi::Env env);
  void weigh(std::int64_t bytes);

  /// A buffer that native code writes into, with the address and size at the time that JavaScript
  /// passed it.
  struct HeldBuffer {
    Napi::Reference<Napi::ArrayBuffer> reference;
    void* data = nullptr;
    std::size_t bytes = 0;

    void hold(Napi::ArrayBuffer buffer);
    /// Whether the buffer still has that address and size, because it is neither detached nor
    /// resized.
    bool intact() const;
  };

  Environment* home_ = nullptr;  // null before make(), and after the environment has ended
  std::unique_ptr<HostCore> core_;
  HeldBuffer exchange_;
  std::vector<HeldBuffer> tables_;  // by frame
  std::int64_t reported_bytes_ = 0;  // external memory reported to the garbage collector
};

}  // namespace blockstep
