#include "mirrored.h"

#include "../../core/audit/digest.h"

namespace blockstep {

void Mirrored::append(const u32* log, u32 words, u32 taken, u64 rolling_digest) {
  condition_.ask_mirror([&] { mirror_->append(log, words, taken, rolling_digest); });
}

void Mirrored::submit(std::optional<u64> stream, bool holds) {
  if (mirror_) condition_.ask_mirror([&] { mirror_->submit(stream, holds); });
}

void Mirrored::admit(std::optional<u64> stream) {
  if (!mirror_ || !stream) return;
  if (!condition_.ask_mirror([&] { return mirror_->device().is_capturing(*stream); })) return;
  throw Error{kBadArg, "stream must not be capturing a graph, got stream " + std::to_string(*stream) + ", which is"};
}

bool Mirrored::poll() {
  if (!mirror_) return true;
  condition_.ask_mirror([&] { mirror_->poll(); });
  return mirror_->idle();
}

void Mirrored::start_digest(const State& state) {
  if (!mirror_) return;
  if (mirror_->digest_pending()) throw Error{kLimit, "a digest is under way already: poll until it is there"};
  condition_.ask_mirror([&] { mirror_->start_digest(blockstep::digest(state)); });
}

std::optional<u64> Mirrored::digest(const State& state) {
  if (!mirror_) return blockstep::digest(state);
  condition_.ask_mirror([&] { mirror_->poll(); });
  return mirror_->digest();
}

}  // namespace blockstep
