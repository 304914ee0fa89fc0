// Condition: whether a core can be used. A core may be poisoned, and a decision of its device may
// be pending.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "../../base/error.h"
#include "exchange.h"

namespace blockstep {

class Condition {
 public:
  explicit Condition(const Exchange& exchange) : exchange_(exchange) {}
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// @throws Error the error of poison(), if the core is poisoned
  void require_sound() const;
  /// Operations that change the state, or need its current content, call this first. They are
  /// refused while a decision of the device is pending, because the decision will change the state.
  /// @throws Error like require_sound(), kDecisionPending
  void begin_change() const;

  /// Poisons the core and throws. The state can no longer be trusted, so every later operation
  /// throws the same error.
  [[noreturn]] void poison(std::string what, const char* code = kInvariant);

  /// Whether the device has a batch whose decision has not arrived yet.
  bool deciding() const { return deciding_; }
  void set_deciding(bool deciding);

  /// Runs one call of the mirror or its device and returns its result. If the call throws, the core
  /// is poisoned, because host and device may disagree from then on.
  template <class Call>
  auto ask_mirror(const Call& call) {
    try {
      return call();
    } catch (Error& error) {
      poison(std::move(error.message), error.code);
    } catch (const std::bad_alloc&) {
      poison("out of memory for what the mirror still has to apply", kMirror);
    }
  }

 private:
  const Exchange& exchange_;
  std::string poisoned_;  // message of the poison; empty while the core is sound
  const char* poison_code_ = kInvariant;
  bool deciding_ = false;
};

}  // namespace blockstep
