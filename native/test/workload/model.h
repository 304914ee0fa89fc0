// The block manager in its simplest form: a list, a map, one request after another. It shares no
// code with the core, which is compared with it after every step.
#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep::test {

class Model {
 public:
  using Name = std::pair<u64, u64>;  // a key, orderable

  struct Block {
    u32 ref = 0;
    u32 pins = 0;
    u32 generation = 0;
    bool published = false;
    Name key{};
  };
  struct Row {
    bool open = false;
    u32 generation = 0;
    std::vector<u32> blocks;
  };

  /// `unhashed_first`: like in Config.
  Model(u32 num_blocks, u32 num_rows, bool unhashed_first = false)
      : blocks(num_blocks), rows(num_rows), unhashed_first_(unhashed_first) {
    for (u32 id = 1; id < num_blocks; ++id) queue.push_back(id);
  }

  static Name name(const Key& key) { return {key.lo, key.hi}; }

  /// The hit of a key: the oldest block published under it; 0 for none.
  u32 find(const Key& key) const {
    const auto at = index.find(name(key));
    return at == index.end() ? 0 : at->second.front();
  }

  void open(u32 row, const std::vector<u32>& hits) {
    rows[row].open = true;
    rows[row].generation += 1;
    rows[row].blocks = hits;
    for (u32 id : hits) touch(id);
  }

  std::vector<u32> extend(u32 row, u32 n) {
    std::vector<u32> taken;
    for (; n != 0; --n) {
      const u32 id = queue.front();
      queue.pop_front();
      forget(id);
      blocks[id].ref = 1;
      blocks[id].generation += 1;
      rows[row].blocks.push_back(id);
      taken.push_back(id);
    }
    return taken;
  }

  void publish(u32 row, u32 at, const Key& key) {
    const u32 id = rows[row].blocks[at];
    blocks[id].published = true;
    blocks[id].key = name(key);
    index[name(key)].push_back(id);
  }

  void release(u32 row) {
    const std::vector<u32> list = std::exchange(rows[row].blocks, {});
    drop({list.rbegin(), list.rend()});
    rows[row].open = false;
  }

  void pin(u32 id) {
    touch(id);
    blocks[id].pins += 1;
  }

  void unpin(const std::vector<u32>& ids) {
    for (u32 id : ids) blocks[id].pins -= 1;
    drop(ids);
  }

  /// Makes the block no longer findable.
  void forget(u32 id) {
    if (!blocks[id].published) return;
    blocks[id].published = false;
    std::vector<u32>& twins = index[blocks[id].key];
    twins.erase(std::find(twins.begin(), twins.end(), id));
    if (twins.empty()) index.erase(blocks[id].key);
    evictions += 1;
  }

  void reset() {
    for (Block& block : blocks) block.published = false;
    index.clear();
  }

  u32 num_published() const {
    u32 count = 0;
    for (const Block& block : blocks) count += block.published;
    return count;
  }

  std::list<u32> queue;
  std::vector<Block> blocks;
  std::vector<Row> rows;
  std::map<Name, std::vector<u32>> index;  // oldest first
  u64 evictions = 0;

 private:
  void touch(u32 id) {
    if (blocks[id].ref++ == 0) queue.remove(id);
  }
  void drop(const std::vector<u32>& ids) {
    std::list<u32> first;
    for (u32 id : ids) {
      if (--blocks[id].ref != 0) continue;
      const bool goes_first = unhashed_first_ && !blocks[id].published;
      (goes_first ? first : queue).push_back(id);
    }
    queue.splice(queue.begin(), first);
  }

  bool unhashed_first_;
};

}  // namespace blockstep::test
