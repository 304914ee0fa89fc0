#include "kv_events.h"

#include "../../base/error.h"

namespace blockstep {

void KvEvents::begin() {
  announced_.clear();
  announced_tokens_.clear();
  next_ = 0;
}

void KvEvents::announce(const FullBlock& block) {
  const std::size_t at = announced_tokens_.size();
  announced_tokens_.insert(announced_tokens_.end(), block.tokens, block.tokens + block_sizes_[block.group]);
  announced_.push_back({block.handle, block.group, block.index, block.parent != nullptr,
                        block.parent ? *block.parent : Key{0, 0}, *block.key, at});
}

void KvEvents::reused(const FullBlock& first, const std::vector<Key>& keys) {
  if (report_ != KvReport::kAll || keys.empty()) return;
  const u32 count = static_cast<u32>(keys.size());
  waiting_.reserve(waiting_.size() + 11 + keys.size() * (4 + block_sizes_[first.group]));
  put_head(KvEvent::kReused, {first.handle, first.group, first.index, first.parent != nullptr,
                              first.parent ? *first.parent : Key{0, 0}, keys[0], 0}, count);
  for (const Key& key : keys) put(key);
  waiting_.insert(waiting_.end(), first.tokens, first.tokens + std::size_t{count} * block_sizes_[first.group]);
}

/// Writes the words of an event that precede its keys.
void KvEvents::put_head(KvEvent kind, const Announced& first, u32 count) {
  waiting_.insert(waiting_.end(), {static_cast<u32>(kind), static_cast<u32>(first.handle),
                                   static_cast<u32>(first.handle >> 32), first.group, first.index, count,
                                   first.has_parent ? 1u : 0u});
  put(first.parent);
}

void KvEvents::apply(State& state, const u32* log, u32 words, Results& results) {
  SoloTeam solo;
  results.num_ids = 0;
  results.evictions = 0;
  results.fault = state.fault;
  // The commands are applied one at a time, because dropped keys are known only until a later
  // command uses their blocks again. The division of a log makes no difference to the state.
  for (u32 at = 0; at < words && results.fault == kNoFault;) {
    const u32 payload = payload_words(log[at]);
    const bool whole = payload < words - at;
    Results one{results.ids + results.num_ids, results.capacity - results.num_ids, 0, 0, 0};
    blockstep::apply(solo, state, log + at, whole ? payload + 1 : words - at, one);
    results.num_ids += one.num_ids;
    results.evictions += one.evictions;
    results.fault = one.fault;
    if (one.fault == kNoFault) tell(state, log[at], log + at + 1, one);
    at += payload + 1;
  }
}

void KvEvents::tell(const State& state, u32 head, const u32* words, const Results& results) {
  switch (op_of(head)) {
    case Op::kPublish: return tell_published(state, words, count_of(head));
    case Op::kExtend: return tell_dropped(state, results.ids, results.num_ids);
    case Op::kEvict: return tell_dropped(state, words, count_of(head));
    case Op::kReset:
      waiting_.push_back(static_cast<u32>(KvEvent::kCleared));
      published_.assign(published_.size(), 0);
      return;
    case Op::kOpen:
    case Op::kRelease:
    case Op::kPin:
    case Op::kUnpin:
    case Op::kDrop:
    case Op::kPad:
    case Op::kMove: return;  // blocks keep their keys
  }
}

/// Reports the blocks that are the only blocks of their keys, in runs of consecutive blocks.
void KvEvents::tell_published(const State& state, const u32* entries, u32 count) {
  if (count > announced_.size() - next_) throw Error{kInvariant, "a block was published that nobody announced"};
  std::size_t from = next_;
  for (u32 i = 0; i < count; ++i, ++next_) {
    const u32* entry = entries + std::size_t{i} * kPublishWords;
    const Key key = key_at(entry + 2);
    const u32 id = blocks_of(state, entry[0])[entry[1]];
    const Announced& announced = announced_[next_];
    if (announced.group == kNone) {
      tell_run(from, next_);
      from = next_ + 1;
      continue;
    }
    if (announced.key != key) throw Error{kInvariant, "a block was published under a key that nobody announced"};
    published_[id] = static_cast<u8>(1 + announced.group);
    const bool is_new = by_block_ || find(state, key, announced.group) == id;
    const bool follows = next_ > from && announced_[next_ - 1].handle == announced.handle &&
                         announced_[next_ - 1].group == announced.group &&
                         announced_[next_ - 1].index + 1 == announced.index;
    if (!is_new || !follows) {
      tell_run(from, next_);
      from = is_new ? next_ : next_ + 1;
    }
  }
  tell_run(from, next_);
}

void KvEvents::tell_run(std::size_t from, std::size_t to) {
  if (from >= to) return;
  const Announced& first = announced_[from];
  put_head(KvEvent::kStored, first, static_cast<u32>(to - from));
  for (std::size_t i = from; i < to; ++i) put(announced_[i].key);
  const auto tokens = announced_tokens_.begin() + static_cast<std::ptrdiff_t>(first.tokens);
  waiting_.insert(waiting_.end(), tokens, tokens + static_cast<std::ptrdiff_t>((to - from) * block_sizes_[first.group]));
}

/// Reports the removed keys of blocks that may have lost their keys.
void KvEvents::tell_dropped(const State& state, const u32* ids, u32 count) {
  std::size_t event = 0;  // position of its keys, once there is an event
  u32 group = 0;          // of that event
  told_.clear();
  for (u32 i = 0; i < count; ++i) {
    const Block& block = state.blocks[ids[i]];
    if (published_[ids[i]] == 0 || (block.flags & kPublished)) continue;
    const u32 of = published_[ids[i]] - 1u;
    published_[ids[i]] = 0;
    // The block's key stays readable until the block is published again. Two of the dropped blocks
    // may have had the same key.
    const bool found = !by_block_ && find(state, block.key, of) != kNone;
    if (found || (!by_block_ && !told_.insert({of, block.key.lo, block.key.hi}).second)) continue;
    if (event == 0 || of != group) {
      waiting_.insert(waiting_.end(), {static_cast<u32>(KvEvent::kRemoved), of, 0});
      event = waiting_.size();
      group = of;
    }
    put(block.key);
    waiting_[event - 1] += 1;
  }
}

void KvEvents::put(const Key& key) {
  u32 words[4];
  put_key(words, key);
  waiting_.insert(waiting_.end(), words, words + 4);
}

}  // namespace blockstep
