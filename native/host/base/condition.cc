#include "condition.h"

namespace blockstep {

void Condition::require_sound() const {
  if (!poisoned_.empty()) throw Error{poison_code_, poisoned_};
}

void Condition::begin_change() const {
  require_sound();
  if (deciding_) throw Error{kDecisionPending, "a decision of the GPU is under way: poll until it has arrived"};
}

void Condition::poison(std::string what, const char* code) {
  poisoned_ = std::move(what);
  poison_code_ = code;
  set_deciding(false);
  throw Error{code, poisoned_};
}

/// Writes the flag to the exchange buffer too, where TypeScript reads it.
void Condition::set_deciding(bool deciding) {
  deciding_ = deciding;
  exchange_.control(kDeciding) = deciding ? 1 : 0;
}

}  // namespace blockstep
