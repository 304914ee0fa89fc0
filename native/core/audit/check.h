// check() and refusal(): whether a log can be applied to a state. Host only. They are for logs from
// files, fuzzers, other processes or a device.
//
// apply() trusts its log. A log from outside is therefore played first on an overlay, which holds
// the changes that its commands would make. The overlay is sequential and only reads the state. Its
// cost grows with the length of the log and of the rows that the log names. It does not grow with
// the size of the state.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../base/command.h"
#include "../base/state.h"

namespace blockstep {

/// Plays a log without changing the state.
class Overlay {
 public:
  explicit Overlay(const State& state)
      : state_(state), head_(state.head), num_free_(state.num_free), all_dropped_(false) {}

  /// Plays one command. Returns nullptr, or why the command cannot be applied. After a failure the
  /// overlay cannot be used.
  const char* play(u32 head, const u32* words) {
    const u32 count = count_of(head);
    switch (op_of(head)) {
      case Op::kOpen: return open(words[0], words + 1, count);
      case Op::kExtend: return extend(words, count);
      case Op::kPublish: return publish(words, count);
      case Op::kRelease: return release(words, count);
      case Op::kPin: return pin(words, count);
      case Op::kUnpin: return unpin(words, count);
      case Op::kEvict: return evict(words, count);
      case Op::kReset: return reset();
      case Op::kDrop: return drop(words, count);
      case Op::kPad: return pad(words, count);
      case Op::kMove: return move(words, count);
    }
    return "unknown op";
  }

 private:
  struct ShadowBlock {
    u32 ref;
    u32 pins;
    bool published;
    // Of the block's last entry in before_ or returned_; 0: the log has not returned the block.
    u64 ticket;
  };
  struct ShadowRow {
    bool in_use;
    std::vector<u32> blocks;
  };

  struct Returned {
    u32 id;
    u64 ticket;
  };

  bool is_block(u32 id) const { return id != kNullBlock && id < state_.config.num_blocks; }
  bool is_row(u32 row) const { return row < state_.config.num_rows; }

  ShadowBlock& block(u32 id) {
    const auto [at, fresh] = blocks_.try_emplace(id);
    if (fresh) {
      const Block& real = state_.blocks[id];
      at->second = {real.ref, real.pins, (real.flags & kPublished) != 0 && !all_dropped_, 0};
    }
    return at->second;
  }

  ShadowRow& row(u32 index) {
    const auto [at, fresh] = rows_.try_emplace(index);
    if (fresh) {
      const Row& real = state_.rows[index];
      const u32* list = blocks_of(state_, index);
      at->second = {real.in_use != 0, std::vector<u32>(list, list + real.num_blocks)};
    }
    return at->second;
  }

  void hold(u32 id) {
    if (block(id).ref++ == 0) num_free_ -= 1;
  }

  /// Drops a reference of each block, in this order; see let_go() in block_pool.h.
  void let_go(const std::vector<u32>& ids) {
    std::deque<Returned> first;
    for (u32 id : ids) {
      if (id == kNullBlock) continue;
      ShadowBlock& shadow = block(id);
      if (--shadow.ref != 0) continue;
      shadow.ticket = ++tickets_;
      num_free_ += 1;
      (state_.config.unhashed_first != 0 && !shadow.published ? first : returned_).push_back({id, tickets_});
    }
    before_.insert(before_.begin(), first.begin(), first.end());
  }

  std::optional<u32> pop_from(std::deque<Returned>& returned) {
    for (; !returned.empty(); returned.pop_front()) {
      const auto [id, ticket] = returned.front();
      const ShadowBlock& shadow = block(id);
      if (shadow.ref == 0 && shadow.ticket == ticket) return id;
    }
    return {};
  }

  /// Takes the next block of the queue. Blocks that the log has put before the head come first.
  /// Then come blocks still in the queue of the state, then blocks that the log has appended.
  u32 pop() {
    if (const auto id = pop_from(before_)) return *id;
    for (; head_ < state_.tail; ++head_) {
      const u32 at = static_cast<u32>(head_) & state_.ring_mask;
      if (!(state_.live[at >> 5] >> (at & 31) & 1)) continue;
      const ShadowBlock& shadow = block(state_.ring[at]);
      if (shadow.ref == 0 && shadow.ticket == 0) return state_.ring[at];
    }
    return *pop_from(returned_);  // the caller has checked num_free_, so a block is there
  }

  const char* open(u32 index, const u32* hits, u32 count) {
    if (!is_row(index)) return "open: no such row";
    if (row(index).in_use) return "open: the row is in use";
    if (count > state_.config.max_blocks_per_row) return "open: too many blocks for a row";
    std::unordered_set<u32> seen;
    for (u32 i = 0; i < count; ++i) {
      if (hits[i] == kNullBlock) continue;
      if (!is_block(hits[i])) return "open: no such block";
      if (!seen.insert(hits[i]).second) return "open: a block is named twice";
    }
    for (u32 i = 0; i < count; ++i) {
      if (hits[i] != kNullBlock) hold(hits[i]);
    }
    row(index) = {true, std::vector<u32>(hits, hits + count)};
    return nullptr;
  }

  const char* extend(const u32* pairs, u32 count) {
    std::unordered_set<u32> seen;
    u64 wanted = 0;
    for (u32 i = 0; i < count; ++i) {
      const u32 index = pairs[2 * i];
      const u32 n = pairs[2 * i + 1];
      if (!is_row(index) || !row(index).in_use) return "extend: the row is not in use";
      if (!seen.insert(index).second) return "extend: a row is named twice";
      if (n == 0) return "extend: no blocks asked for";
      if (row(index).blocks.size() + n > state_.config.max_blocks_per_row) return "extend: too many blocks for a row";
      wanted += n;
    }
    if (wanted > num_free_) return "extend: not enough free blocks";
    for (u32 i = 0; i < count; ++i) {
      for (u32 n = pairs[2 * i + 1]; n != 0; --n) {
        const u32 id = pop();
        block(id).ref = 1;
        block(id).published = false;
        row(pairs[2 * i]).blocks.push_back(id);
      }
    }
    num_free_ -= static_cast<u32>(wanted);
    return nullptr;
  }

  const char* publish(const u32* entries, u32 count) {
    for (u32 i = 0; i < count; ++i, entries += kPublishWords) {
      if (!is_row(entries[0]) || !row(entries[0]).in_use) return "publish: the row is not in use";
      const std::vector<u32>& list = row(entries[0]).blocks;
      if (entries[1] >= list.size() || list[entries[1]] == kNullBlock) return "publish: no such block in the row";
      ShadowBlock& shadow = block(list[entries[1]]);
      if (shadow.published) return "publish: the block is already published";
      shadow.published = true;
    }
    return nullptr;
  }

  const char* release(const u32* rows, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      if (!is_row(rows[i]) || !row(rows[i]).in_use) return "release: the row is not in use";
      ShadowRow& shadow = row(rows[i]);
      let_go({shadow.blocks.rbegin(), shadow.blocks.rend()});
      shadow = {false, {}};
    }
    return nullptr;
  }

  const char* pin(const u32* ids, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      if (!is_block(ids[i])) return "pin: no such block";
      hold(ids[i]);
      block(ids[i]).pins += 1;
    }
    return nullptr;
  }

  const char* unpin(const u32* ids, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      if (!is_block(ids[i])) return "unpin: no such block";
      if (block(ids[i]).pins == 0) return "unpin: the block is not pinned";
      block(ids[i]).pins -= 1;
    }
    // A block whose id repeats loses its last reference at its last occurrence, as in the command.
    let_go({ids, ids + count});
    return nullptr;
  }

  const char* evict(const u32* ids, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      if (!is_block(ids[i])) return "evict: no such block";
      block(ids[i]).published = false;
    }
    return nullptr;
  }

  const char* reset() {
    if (num_free_ != state_.config.num_blocks - 1 - state_.config.num_kept) return "reset: blocks are in use";
    all_dropped_ = true;
    for (auto& entry : blocks_) entry.second.published = false;
    return nullptr;
  }

  const char* drop(const u32* entries, u32 count) {
    for (u32 i = 0; i < count; ++i, entries += 3) {
      if (!is_row(entries[0]) || !row(entries[0]).in_use) return "drop: the row is not in use";
      std::vector<u32>& list = row(entries[0]).blocks;
      if (entries[1] > list.size() || entries[2] > list.size() - entries[1]) return "drop: no such place in the row";
      const auto from = list.begin() + entries[1];
      const std::vector<u32> gone(std::make_reverse_iterator(from + entries[2]), std::make_reverse_iterator(from));
      std::fill_n(from, entries[2], u32{kNullBlock});
      let_go(gone);
    }
    return nullptr;
  }

  const char* pad(const u32* pairs, u32 count) {
    for (u32 i = 0; i < count; ++i, pairs += 2) {
      if (!is_row(pairs[0]) || !row(pairs[0]).in_use) return "pad: the row is not in use";
      std::vector<u32>& list = row(pairs[0]).blocks;
      if (pairs[1] > state_.config.max_blocks_per_row - list.size()) return "pad: too many places for a row";
      list.resize(list.size() + pairs[1], u32{kNullBlock});
    }
    return nullptr;
  }

  const char* move(const u32* entries, u32 count) {
    for (u32 i = 0; i < count; ++i, entries += 3) {
      if (!is_row(entries[0]) || !row(entries[0]).in_use) return "move: the row is not in use";
      std::vector<u32>& list = row(entries[0]).blocks;
      if (entries[1] >= list.size() || entries[2] >= list.size()) return "move: no such place in the row";
      if (list[entries[2]] != kNullBlock) return "move: the place holds a block";
      std::swap(list[entries[1]], list[entries[2]]);
    }
    return nullptr;
  }

  const State& state_;
  u64 head_;  // how far the state's own queue has been read
  u32 num_free_;
  bool all_dropped_;  // The log had a Reset: blocks that are not in blocks_ yet have no key.
  u64 tickets_ = 0;
  // Blocks that the log returned, at both ends. An entry is dead if its block has another ticket.
  std::deque<Returned> before_, returned_;
  std::unordered_map<u32, ShadowBlock> blocks_;
  std::unordered_map<u32, ShadowRow> rows_;
};

/// Returns why `log` cannot be applied to `state`, or nullptr if it can. Changes nothing. It does
/// not check Results::capacity: taken_by() returns the required capacity.
inline const char* refusal(const State& state, const u32* log, u32 words) {
  if (state.fault != kNoFault) return "the state has a fault";
  Overlay overlay(state);
  for (u32 at = 0; at < words;) {
    const u32 payload = payload_words(log[at]);
    if (payload >= words - at) return "unknown op, or a payload that runs past the end of the log";
    if (const char* why = overlay.play(log[at], log + at + 1)) return why;
    at += payload + 1;
  }
  return nullptr;
}

/// Whether the log is well formed and can be applied to this state.
inline bool check(const State& state, const u32* log, u32 words) { return refusal(state, log, words) == nullptr; }

/// Number of blocks that the Extend commands of the log take: the capacity that its results need.
/// Returns kNone if the log is malformed or takes at least kNone blocks.
inline u32 taken_by(const u32* log, u32 words) {
  u64 taken = 0;
  for (u32 at = 0; at < words;) {
    const u32 payload = payload_words(log[at]);
    if (payload >= words - at) return kNone;
    if (op_of(log[at]) == Op::kExtend) {
      for (u32 i = 0; i < count_of(log[at]); ++i) taken += log[at + 2 + 2 * i];
    }
    at += payload + 1;
  }
  return taken < kNone ? static_cast<u32>(taken) : kNone;
}

}  // namespace blockstep
