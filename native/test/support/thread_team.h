// A team of threads, for the thread sanitizer. It works like a GPU's thread block, with visible
// races.
#pragma once

#include <barrier>
#include <thread>
#include <vector>

#include "../../core/base/team.h"

namespace blockstep::test {

/// One member of a team of threads. Each synchronising call is exactly one barrier, with its values
/// in two alternating buffers. A stronger barrier would hide a missing synchronisation of the core.
class ThreadTeam {
 public:
  struct Shared {
    explicit Shared(u32 members) : size(members), barrier(static_cast<std::ptrdiff_t>(members)) {
      for (auto& buffer : values) buffer.resize(members);
    }
    u32 size;
    std::barrier<> barrier;
    std::vector<u64> values[2];
  };

  ThreadTeam(Shared& shared, u32 rank) : shared_(shared), rank_(rank) {}

  u32 rank() const { return rank_; }
  u32 size() const { return shared_.size; }
  void sync() { shared_.barrier.arrive_and_wait(); }

  u32 count(bool flag, u32& total) { return scan(flag ? 1 : 0, total); }

  u32 scan(u32 value, u32& total) {
    const std::vector<u64>& values = exchange_values(value);
    u32 before = 0;
    total = 0;
    for (u32 i = 0; i < size(); ++i) {
      if (i == rank_) before = total;
      total += static_cast<u32>(values[i]);
    }
    return before;
  }

  u64 sum(u64 value) {
    u64 all = 0;
    for (u64 other : exchange_values(value)) all += other;
    return all;
  }

  u32 load(const u32* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
  void store(u32* word, u32 value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }
  u32 exchange(u32* word, u32 value) { return __atomic_exchange_n(word, value, __ATOMIC_RELAXED); }
  u32 fetch_add(u32* word, u32 value) { return __atomic_fetch_add(word, value, __ATOMIC_RELAXED); }
  u32 fetch_sub(u32* word, u32 value) { return __atomic_fetch_sub(word, value, __ATOMIC_RELAXED); }
  u32 fetch_or(u32* word, u32 value) { return __atomic_fetch_or(word, value, __ATOMIC_RELAXED); }
  u32 fetch_and(u32* word, u32 value) { return __atomic_fetch_and(word, value, __ATOMIC_RELAXED); }
  u32 fetch_max(u32* word, u32 value) {
    u32 old = load(word);
    while (old < value && !__atomic_compare_exchange_n(word, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
  }

 private:
  const std::vector<u64>& exchange_values(u64 value) {
    std::vector<u64>& buffer = shared_.values[turn_];
    turn_ ^= 1;
    buffer[rank_] = value;
    sync();
    return buffer;
  }

  Shared& shared_;
  u32 rank_;
  u32 turn_ = 0;
};
static_assert(Team<ThreadTeam>);

/// A launch: runs `work(team)` on every member of a new team of `size` threads, and waits for them.
template <class Work>
void launch(u32 size, const Work& work) {
  ThreadTeam::Shared shared(size);
  std::vector<std::jthread> members;
  for (u32 rank = 0; rank < size; ++rank) {
    members.emplace_back([&shared, &work, rank] {
      ThreadTeam team(shared, rank);
      work(team);
    });
  }
}

}  // namespace blockstep::test
