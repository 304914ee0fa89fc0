// Whether a core can be used: is it sound, and is a decision of its device under way?
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

  /// @throws Error what poison() was told
  void require_sound() const;
  /// Called first by whatever changes the state, or asks for the state as it will be: a decision of the device comes
  /// before that. @throws Error as require_sound(), kDecisionPending
  void begin_change() const;

  /// From now on every operation throws this error, because what the state says can no longer be trusted.
  [[noreturn]] void poison(std::string what, const char* code = kInvariant);

  /// A batch is on the device, and its decision has not come.
  bool deciding() const { return deciding_; }
  void set_deciding(bool deciding);

  /// Runs one call of the mirror or its device. Whatever the call throws poisons the core: host and device no longer
  /// agree, or nobody can say whether they do.
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
  std::string poisoned_;  // empty: sound
  const char* poison_code_ = kInvariant;
  bool deciding_ = false;
};

}  // namespace blockstep
