// KvEvents: reports the effects of a log on the prefix cache as vLLM's KV cache events.
//
// The events name the keys in the index of the prefix cache, not the blocks that carry them. A key
// is stored when its first block is published, and removed when its last block loses it. A reader
// that applies the events to an empty set has the keys of the index. vLLM also reports a key as
// removed while another block still carries it.
#pragma once

#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "../../core/blocks/apply.h"
#include "../base/config.h"

namespace blockstep {

/// An event consists of flat words after its kind:
///
///   kStored, kReused   handle (2 words), group, index of the first block in its request, n, 1 if
///                      there is a parent, the parent's key (4 words), n keys (4 words each), n *
///                      the group's block size tokens
///   kRemoved           group, n, n keys
///   kCleared           (nothing): the index is empty
enum class KvEvent : u32 { kStored = 1, kReused, kRemoved, kCleared };

/// A full block of a request in one of its groups. The parent is null for the first block.
struct FullBlock {
  u64 handle;
  u32 group;
  u32 index;
  const Key* parent;
  const Key* key;
  const std::int32_t* tokens;
};

/// Invariant: `published_[id]` is 0 if block `id` carries no key, else 1 + the group of its key. It
/// is as of the last command that was applied here.
class KvEvents {
 public:
  /// @param by_block report each block, even if another block has the same key
  /// @param block_sizes tokens of a block, by group
  KvEvents(KvReport report, bool by_block, u32 num_blocks, std::vector<u32> block_sizes)
      : report_(report), by_block_(by_block), block_sizes_(std::move(block_sizes)), published_(report == KvReport::kNothing ? 0 : num_blocks) {}
  KvEvents(const KvEvents&) = delete;
  KvEvents& operator=(const KvEvents&) = delete;

  bool on() const { return report_ != KvReport::kNothing; }

  /// Forgets the announcements.
  void begin();
  /// Announces the next publication of the log that is being built. The request may have ended when
  /// the log is applied, so its tokens are copied here. @throws std::bad_alloc
  void announce(const FullBlock& block);
  /// Like announce(), for a publication that is never reported, nor its removal.
  void announce_silent() { announced_.push_back({0, kNone, 0, false, {}, {}, 0}); }
  /// Reports, if such events are enabled, that a request found these blocks in the index. They are
  /// consecutive from the first block, whose key is the first of `keys`. @throws std::bad_alloc
  void reused(const FullBlock& first, const std::vector<Key>& keys);

  /// Like apply() of one member, and reports the effects of the log. Publications come in the order
  /// of their announcements. @throws Error kInvariant if they do not, std::bad_alloc; the log is
  /// nevertheless applied, up to some command
  void apply(State& state, const u32* log, u32 words, Results& results);

  /// The events that were not taken yet.
  const std::vector<u32>& waiting() const { return waiting_; }
  void forget() { waiting_.clear(); }

 private:
  struct Announced {
    u64 handle;
    u32 group;
    u32 index;
    bool has_parent;
    Key parent;
    Key key;
    std::size_t tokens;  // their start in announced_tokens_
  };

  void tell(const State& state, u32 head, const u32* words, const Results& results);
  void tell_published(const State& state, const u32* entries, u32 count);
  void tell_dropped(const State& state, const u32* ids, u32 count);
  void tell_run(std::size_t from, std::size_t to);
  void put_head(KvEvent kind, const Announced& first, u32 count);
  void put(const Key& key);

  const KvReport report_;
  const bool by_block_;
  const std::vector<u32> block_sizes_;  // [groups]
  std::vector<u8> published_;
  std::vector<Announced> announced_;
  std::vector<std::int32_t> announced_tokens_;
  std::size_t next_ = 0;  // number of announcements that were published
  std::vector<u32> waiting_;
  std::set<std::tuple<u32, u64, u64>> told_;  // groups and keys that the command removed completely
};

}  // namespace blockstep
