// The part of a core that has to do with its mirror: every log goes there too, and what goes wrong there poisons it.
#include "../../core/audit/digest.h"
#include "../core.h"

namespace blockstep {

/// The log that was just applied, and how many blocks it took.
void HostCore::mirror_log(u32 taken) {
  ask_mirror([&] { mirror_->append(log_.words(), log_.size(), taken, state_.rolling_digest); });
}

void HostCore::submit(std::optional<u64> stream) {
  begin_change();
  drain();
  if (mirror_) ask_mirror([&] { mirror_->submit(stream); });
}

bool HostCore::poll() {
  require_sound();
  if (!mirror_) return true;
  ask_mirror([&] { mirror_->poll(); });
  return mirror_->idle();
}

void HostCore::start_mirror_digest() {
  begin_change();
  drain();
  if (!mirror_) return;
  if (mirror_->digest_pending()) throw Error{kLimit, "a digest is under way already: poll until it is there"};
  ask_mirror([&] { mirror_->start_digest(blockstep::digest(state_)); });
}

std::optional<u64> HostCore::mirror_digest() {
  require_sound();
  if (!mirror_) return blockstep::digest(state_);
  ask_mirror([&] { mirror_->poll(); });
  return mirror_->digest();
}

}  // namespace blockstep
