// Random but always applicable commands. Each is drawn from the model's possible commands, played
// on the model, and written into a log for the core.
#pragma once

#include "model.h"
#include "../support/support.h"

namespace blockstep::test {

struct Shape {
  u32 num_blocks;
  u32 num_rows;
  u32 max_blocks_per_row;
  u32 bucket_bits;
  u32 num_docs;  // number of documents with which requests begin: few documents, many hits
  u32 unhashed_first = 0;
};

inline Config config_of(const Shape& s) {
  return {s.num_blocks, s.num_rows, s.max_blocks_per_row, s.bucket_bits, 1, 0, s.unhashed_first};
}

class Workload {
 public:
  Workload(const Shape& shape, u64 seed)
      : model(shape.num_blocks, shape.num_rows, shape.unhashed_first != 0), shape_(shape), random(seed), docs_(shape.num_rows, 0) {}

  /// Appends one more command (or a few that belong together) to `log`. The blocks it takes are
  /// added to `taken`.
  void step(Log& log, std::vector<u32>& taken) {
    if (random.one_in(100)) storm_ = random.below(60);
    if (storm_ != 0) {
      storm_ -= 1;
      return shuffle(log);
    }
    switch (random.below(16)) {
      case 0: case 1: case 2: case 3: return admit(log, taken);
      case 4: case 5: case 6: return grow(log, taken);
      case 7: case 8: return publish(log);
      case 9: case 10: case 11: return release(log, 1 + random.below(3));
      case 12: return pin(log);
      case 13: return unpin(log, 1 + random.below(8));
      case 14: return evict(log);
      default: if (random.one_in(8)) drain(log);
    }
  }

  /// The key of a document's block. In half of the documents, the blocks' keys differ only in the
  /// high word and share the low word, which selects the bucket. In the other half it is the
  /// reverse.
  static Key key(u32 doc, u32 index) {
    const u64 mine = u64{doc} << 32 | (index + 1);
    const u64 low = mine * 0x9e3779b97f4a7c15u;
    return doc % 2 ? Key{low ^ low >> 29, 7} : Key{index % 3, mine};
  }

  /// Keys of the first blocks of some document, like the lookup of a new request.
  std::vector<Key> some_keys() {
    const u32 doc = random.below(shape_.num_docs);
    std::vector<Key> keys;
    for (u32 i = 0, n = random.below(shape_.max_blocks_per_row + 1); i < n; ++i) keys.push_back(key(doc, i));
    return keys;
  }

  /// The expected result of lookup().
  std::vector<u32> hits_of(const std::vector<Key>& keys) const {
    std::vector<u32> hits;
    for (const Key& key : keys) {
      const u32 id = model.find(key);
      if (id == 0) break;
      hits.push_back(id);
    }
    return hits;
  }

  Model model;
  u64 num_commands = 0;
  u64 num_hits = 0;

 private:
  /// A new request: opens a row with its hits, takes the rest, publishes some blocks.
  void admit(Log& log, std::vector<u32>& taken) {
    const u32 row = pick([&](u32 r) { return !model.rows[r].open; });
    if (row == kNone) return;
    const u32 doc = random.below(shape_.num_docs);
    const u32 length = 1 + random.below(shape_.max_blocks_per_row);
    std::vector<u32> hits;
    if (!random.one_in(4)) {  // one in four makes no lookup, which creates blocks with equal keys
      std::vector<Key> keys;
      for (u32 i = 0; i < length; ++i) keys.push_back(key(doc, i));
      hits = hits_of(keys);
    }
    docs_[row] = doc;
    num_hits += hits.size();
    model.open(row, hits);
    std::vector<u32> payload{row};
    payload.insert(payload.end(), hits.begin(), hits.end());
    emit(log, Op::kOpen, static_cast<u32>(hits.size()), payload);
    const u32 missing = length - static_cast<u32>(hits.size());
    if (missing == 0 || missing > model.queue.size()) return;
    append(taken, model.extend(row, missing));
    emit(log, Op::kExtend, 1, {row, missing});
    if (!random.one_in(4)) publish_row(log, row, static_cast<u32>(hits.size()));
  }

  /// A decode step: many rows, mostly one block each, sometimes more.
  void grow(Log& log, std::vector<u32>& taken) {
    std::vector<u32> pairs;
    std::vector<u32> rows = all([&](u32 r) { return model.rows[r].open; });
    const bool one_each = random.one_in(2);
    u32 free = static_cast<u32>(model.queue.size());
    for (u32 row : rows) {
      const u32 room = shape_.max_blocks_per_row - static_cast<u32>(model.rows[row].blocks.size());
      const u32 limit = std::min(room, free);
      if (limit == 0 || random.one_in(3)) continue;
      const u32 n = one_each ? 1 : 1 + random.below(limit);
      free -= n;
      append(taken, model.extend(row, n));
      pairs.push_back(row);
      pairs.push_back(n);
    }
    emit(log, Op::kExtend, static_cast<u32>(pairs.size() / 2), pairs);
  }

  /// Some unpublished blocks of any rows, in any order.
  void publish(Log& log) {
    std::vector<u32> payload;
    for (u32 tries = random.below(12); tries != 0; --tries) {
      const u32 row = pick([&](u32 r) { return !model.rows[r].blocks.empty(); });
      if (row == kNone) break;
      add_entry(payload, row, random.below(model.rows[row].blocks.size()));
    }
    emit(log, Op::kPublish, static_cast<u32>(payload.size() / kPublishWords), payload);
  }

  void publish_row(Log& log, u32 row, u32 from) {
    std::vector<u32> payload;
    for (u32 i = from; i < model.rows[row].blocks.size(); ++i) add_entry(payload, row, i);
    emit(log, Op::kPublish, static_cast<u32>(payload.size() / kPublishWords), payload);
  }

  void add_entry(std::vector<u32>& payload, u32 row, u32 at) {
    if (model.blocks[model.rows[row].blocks[at]].published) return;
    const Key name = key(docs_[row], at);
    model.publish(row, at, name);
    payload.insert(payload.end(), {row, at, 0, 0, 0, 0});
    put_key(&payload[payload.size() - 4], name);
  }

  void release(Log& log, u32 count) {
    std::vector<u32> rows;
    for (; count != 0; --count) {
      const u32 row = pick([&](u32 r) { return model.rows[r].open; });
      if (row == kNone) break;
      model.release(row);
      rows.push_back(row);
    }
    emit(log, Op::kRelease, static_cast<u32>(rows.size()), rows);
  }

  void pin(Log& log) {
    std::vector<u32> ids;
    for (u32 n = random.below(8); n != 0; --n) ids.push_back(some_block(ids));
    for (u32 id : ids) model.pin(id);
    emit(log, Op::kPin, static_cast<u32>(ids.size()), ids);
  }

  void unpin(Log& log, u32 most) {
    std::vector<u32> ids;
    for (u32 id = 1; id < shape_.num_blocks; ++id) ids.insert(ids.end(), model.blocks[id].pins, id);
    for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random.below(i)]);
    if (ids.size() > most) ids.resize(most);
    model.unpin(ids);
    emit(log, Op::kUnpin, static_cast<u32>(ids.size()), ids);
  }

  void evict(Log& log) {
    std::vector<u32> ids;
    for (u32 n = random.below(10); n != 0; --n) ids.push_back(some_block(ids));
    for (u32 id : ids) model.forget(id);
    emit(log, Op::kEvict, static_cast<u32>(ids.size()), ids);
  }

  /// Releases everything, and resets the cache.
  void drain(Log& log) {
    release(log, shape_.num_rows);
    unpin(log, kNone);
    model.reset();
    emit(log, Op::kReset, 0, {});
  }

  /// Free blocks leave the middle of the queue and come back at its tail, which leaves dead places
  /// behind.
  void shuffle(Log& log) {
    std::vector<u32> ids;
    for (u32 id : model.queue) {
      if (random.one_in(2)) ids.push_back(id);
    }
    for (u32 id : ids) model.pin(id);
    emit(log, Op::kPin, static_cast<u32>(ids.size()), ids);
    unpin(log, random.one_in(4) ? kNone : 1 + random.below(shape_.num_blocks / 4 + 1));
  }

  /// Any block. One in four repeats a block of the list.
  u32 some_block(const std::vector<u32>& list) {
    if (!list.empty() && random.one_in(4)) return list[random.below(list.size())];
    return 1 + random.below(shape_.num_blocks - 1);
  }

  template <class Wanted>
  std::vector<u32> all(Wanted wanted) const {
    std::vector<u32> rows;
    for (u32 row = 0; row < shape_.num_rows; ++row) {
      if (wanted(row)) rows.push_back(row);
    }
    return rows;
  }

  template <class Wanted>
  u32 pick(Wanted wanted) {
    const std::vector<u32> rows = all(wanted);
    return rows.empty() ? kNone : rows[random.below(rows.size())];
  }

  void emit(Log& log, Op op, u32 count, const std::vector<u32>& payload) {
    log.add(op, count, payload);
    num_commands += 1;
  }

  static void append(std::vector<u32>& to, const std::vector<u32>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Shape shape_;
  u32 storm_ = 0;  // number of further steps that only shuffle the queue

 public:
  Random random;

 private:
  std::vector<u32> docs_;  // the document of each row
};

/// Compares the whole model with the state. `when` is part of the message.
inline void expect_equal(const State& state, const Model& model, u64 when) {
  const std::vector<u32> queue = queue_of(state);
  const std::vector<u32> wanted(model.queue.begin(), model.queue.end());
  if (queue != wanted) {
    std::size_t at = 0;
    while (at < queue.size() && at < wanted.size() && queue[at] == wanted[at]) ++at;
    EXPECT(false, "step %llu: the free queue (%zu) differs from the model's (%zu) at %zu",
           wide(when), queue.size(), wanted.size(), at);
  }
  const auto step = wide(when);
  EXPECT(state.num_free == wanted.size(), "step %llu: %u against %zu", step, state.num_free, wanted.size());
  EXPECT(state.evictions == model.evictions, "step %llu", step);
  EXPECT(state.num_published == model.num_published(), "step %llu", step);
  for (u32 id = 1; id < state.config.num_blocks; ++id) {
    const Block& block = state.blocks[id];
    const Model::Block& other = model.blocks[id];
    EXPECT(block.ref == other.ref, "step %llu, block %u: %u against %u", step, id, block.ref, other.ref);
    EXPECT(block.pins == other.pins, "step %llu, block %u: %u against %u", step, id, block.pins, other.pins);
    EXPECT(block.generation == other.generation, "step %llu, block %u", step, id);
    EXPECT(((block.flags & kPublished) != 0) == other.published, "step %llu, block %u", step, id);
    if (!other.published) continue;
    EXPECT(Model::name(block.key) == other.key, "step %llu, block %u", step, id);
    EXPECT(find(state, block.key) == model.find(block.key), "step %llu, block %u: another twin answers", step, id);
  }
  u32 in_use = 0;
  for (u32 row = 0; row < state.config.num_rows; ++row) {
    const Model::Row& other = model.rows[row];
    const u32* list = blocks_of(state, row);
    in_use += other.open;
    EXPECT((state.rows[row].in_use != 0) == other.open, "step %llu, row %u", step, row);
    EXPECT(state.rows[row].generation == other.generation, "step %llu, row %u", step, row);
    EXPECT(state.rows[row].num_blocks == other.blocks.size(), "step %llu, row %u", step, row);
    EXPECT(std::equal(other.blocks.begin(), other.blocks.end(), list), "step %llu, row %u", step, row);
  }
  EXPECT(state.rows_in_use == in_use, "step %llu", step);
}

}  // namespace blockstep::test
