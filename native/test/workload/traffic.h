// Random logs for pools of any size, drawn from the host's own state. Unlike Workload it has no
// model, so the cost of a step depends only on the length of its log, even with a million blocks.
// Prompts share documents, decodes sometimes take a block, requests end, blocks are pinned and
// evicted.
#pragma once

#include "../support/support.h"

namespace blockstep::test {

class Traffic {
 public:
  /// Requests have up to `longest` blocks of one of `num_docs` documents.
  Traffic(const Machine& host, u32 num_docs, u32 longest, u64 seed)
      : state_(host.state), num_docs_(num_docs), longest_(longest), random_(seed), rows_(host.state.config.num_rows) {}

  /// Returns a log that applies to the host's current state. It may be empty.
  Log step() {
    Log log;
    // First the longest request, and a request of a thousand blocks: their logs are the longest
    // kinds.
    steps_ += 1;
    if (steps_ == 1) return admit(log, longest_), log;
    if (steps_ == 2) return admit(log, std::min(longest_, 1000u)), log;
    switch (random_.below(16)) {
      case 0: case 1: case 2: case 3: case 4: admit(log, some_length()); break;
      case 5: case 6: case 7: case 8: case 9: case 10: decode(log); break;
      case 11: case 12: release(log, 1 + random_.below(4)); break;
      case 13: pin(log); break;
      case 14: unpin(log); break;
      default: evict(log);
    }
    return log;
  }

 private:
  struct Request {
    bool open = false;
    u32 doc = 0;
    u32 blocks = 0;
    u32 published = 0;
  };

  static Key key(u32 doc, u32 index) {
    const u64 mine = u64{doc} << 32 | (index + 1);
    return {mix(mine, 1), mix(mine, 2)};
  }

  u32 any_row(bool open) {
    for (u32 tries = 0; tries < 16; ++tries) {
      const u32 row = random_.below(rows_.size());
      if (rows_[row].open == open) return row;
    }
    return kNone;
  }

  /// Mostly short, and one in eight of any length.
  u32 some_length() { return 1 + random_.below(random_.one_in(8) ? longest_ : std::min(longest_, 48u)); }

  void admit(Log& log, u32 length) {
    const u32 row = any_row(false);
    if (row == kNone) return release(log, 2);
    const u32 doc = steps_ <= 2 ? static_cast<u32>(steps_) : random_.below(num_docs_);
    std::vector<Key> keys;
    for (u32 i = 0; i < length; ++i) keys.push_back(key(doc, i));
    std::vector<u32> payload(1 + length, row);
    SoloTeam solo;
    const u32 hits = random_.one_in(5) ? 0 : lookup(solo, state_, keys.data(), length, payload.data() + 1);
    u32 free = state_.num_free;
    for (u32 i = 0; i < hits; ++i) free -= state_.blocks[payload[1 + i]].ref == 0;
    if (length - hits > free) return release(log, 4);
    payload.resize(1 + hits);
    log.add(Op::kOpen, hits, payload);
    rows_[row] = {true, doc, length, hits};
    if (length == hits) return;
    log.add(Op::kExtend, 1, {row, length - hits});
    publish(log, row, row);
  }

  /// One more block for one row in eight, then the publication of all full blocks.
  void decode(Log& log) {
    std::vector<u32> pairs;
    u32 free = state_.num_free;
    for (u32 row = random_.below(8); row < rows_.size() && free != 0; row += 8) {
      Request& request = rows_[row];
      if (!request.open || request.blocks == state_.config.max_blocks_per_row) continue;
      request.blocks += 1;
      free -= 1;
      pairs.insert(pairs.end(), {row, 1});
    }
    log.add(Op::kExtend, static_cast<u32>(pairs.size() / 2), pairs);
    publish(log, 0, static_cast<u32>(rows_.size()) - 1);
  }

  void publish(Log& log, u32 from, u32 to) {
    std::vector<u32> payload;
    for (u32 row = from; row <= to; ++row) {
      Request& request = rows_[row];
      for (; request.open && request.published < request.blocks; ++request.published) {
        payload.insert(payload.end(), {row, request.published, 0, 0, 0, 0});
        put_key(&payload[payload.size() - 4], key(request.doc, request.published));
      }
    }
    log.add(Op::kPublish, static_cast<u32>(payload.size() / kPublishWords), payload);
  }

  void release(Log& log, u32 most) {
    std::vector<u32> rows;
    for (; most != 0; --most) {
      const u32 row = any_row(true);
      if (row == kNone) break;
      rows_[row] = {};
      rows.push_back(row);
    }
    log.add(Op::kRelease, static_cast<u32>(rows.size()), rows);
  }

  std::vector<u32> some_blocks(u32 most) {
    std::vector<u32> ids;
    for (u32 n = random_.below(most); n != 0; --n) ids.push_back(1 + random_.below(state_.config.num_blocks - 1));
    return ids;
  }

  void pin(Log& log) {
    const std::vector<u32> ids = some_blocks(300);
    pinned_.insert(pinned_.end(), ids.begin(), ids.end());
    log.add(Op::kPin, static_cast<u32>(ids.size()), ids);
  }

  void unpin(Log& log) {
    std::vector<u32> ids;
    for (u32 n = random_.below(400); n != 0 && !pinned_.empty(); --n) {
      std::swap(pinned_[random_.below(pinned_.size())], pinned_.back());
      ids.push_back(pinned_.back());
      pinned_.pop_back();
    }
    log.add(Op::kUnpin, static_cast<u32>(ids.size()), ids);
  }

  void evict(Log& log) {
    const std::vector<u32> ids = some_blocks(64);
    log.add(Op::kEvict, static_cast<u32>(ids.size()), ids);
  }

  const State& state_;
  u32 num_docs_;
  u32 longest_;
  Random random_;
  u64 steps_ = 0;
  std::vector<Request> rows_;
  std::vector<u32> pinned_;
};

}  // namespace blockstep::test
