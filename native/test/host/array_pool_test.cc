// Many arrays of one pool that grow and are freed: each keeps its content, none overlap, and freed
// memory is reused.
#include "../../base/array_pool.h"

#include <vector>

#include "../support/support.h"

using namespace blockstep;
using namespace blockstep::test;

struct Array {
  u64* words;
  u64 count;
  u64 id;
};

static u64 bytes_of(const Array& array) { return array.count * sizeof(u64); }

static void fill(const Array& array, u64 from) {
  for (u64 i = from; i < array.count; ++i) array.words[i] = array.id << 32 | i;
}

/// Every word is unique to its array, so that overlaps are found.
static void check(const Array& array, u64 count) {
  for (u64 i = 0; i < count; ++i)
    EXPECT(array.words[i] == (array.id << 32 | i), "word %llu of %llu is another one's", wide(i), wide(array.count));
}

/// Most arrays are small, some are larger than all classes.
static u64 some_count(Random& random) {
  const u64 most = u64{1} << (2 + random.below(16));
  return 1 + random.below(most);
}

static void test_lives(u32 steps) {
  Random random(7);
  ArrayPool pool;
  std::vector<Array> arrays;
  u64 last_id = 0;
  for (u32 step = 0; step < steps; ++step) {
    const u32 at = arrays.empty() ? 0 : random.below(arrays.size());
    if (arrays.size() < 64 && random.below(4) < 2) {
      Array array{nullptr, some_count(random), ++last_id};
      array.words = static_cast<u64*>(pool.take(bytes_of(array)));
      const auto address = reinterpret_cast<std::uintptr_t>(array.words);
      EXPECT(address % alignof(Key) == 0, "an array of %llu bytes is not aligned", wide(bytes_of(array)));
      fill(array, 0);
      arrays.push_back(array);
    } else if (!arrays.empty() && random.one_in(3)) {
      check(arrays[at], arrays[at].count);
      pool.give(arrays[at].words, bytes_of(arrays[at]));
      arrays[at] = arrays.back();
      arrays.pop_back();
    } else if (!arrays.empty()) {
      Array& array = arrays[at];
      const u64 before = array.count;
      array.count += some_count(random);
      array.words = static_cast<u64*>(pool.resize(array.words, before * sizeof(u64), bytes_of(array)));
      check(array, before);
      fill(array, before);
    }
  }
  for (const Array& array : arrays) {
    check(array, array.count);
    pool.give(array.words, bytes_of(array));
  }
}

/// The next arrays of a class, and no others, reuse freed memory.
static void test_again() {
  ArrayPool pool;
  std::vector<void*> taken;
  for (u32 i = 0; i < 3; ++i) taken.push_back(pool.take(300));
  void* const small = pool.take(200);
  for (void* array : taken) pool.give(array, 384);
  EXPECT(pool.take(257) == taken[2] && pool.take(384) == taken[1] && pool.take(300) == taken[0], "three arrays are new");
  EXPECT(pool.resize(small, 200, 256) == small, "an array that has the room moved");
  EXPECT(pool.resize(small, 256, 1000) != small && pool.take(200) == small, "what was outgrown is not taken again");
  EXPECT(pool.resize(nullptr, 0, 100) != nullptr, "no array");
  pool.give(nullptr, 0);
}

/// The rest of a chunk is used: many arrays that do not divide it need little more than their own
/// bytes.
static void test_rests() {
  ArrayPool pool;
  for (u32 i = 0; i < 100; ++i) pool.take(384 << 10);
  const u64 before = pool.bytes();
  for (u32 i = 0; i < 20; ++i) pool.take(100 << 10);
  EXPECT(pool.bytes() == before, "%llu bytes more, beside rests of 512 KiB in 19 chunks", wide(pool.bytes() - before));
}

int main(int argc, char** argv) {
  const u32 steps = argc > 1 ? static_cast<u32>(std::atoi(argv[1])) : 5000;
  test_lives(steps);
  test_again();
  test_rests();
  std::printf("array pool: %u steps, arrays taken again, rests used\n", steps);
  return 0;
}
