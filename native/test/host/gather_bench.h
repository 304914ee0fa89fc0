// A random life on an emulated device whose gathers are kept.
#pragma once

#include "../support/emulated_device.h"
#include "../support/tables_life.h"

namespace blockstep::test {

/// A random life on an emulated device, which keeps the tables of every gather.
template <class Life = TablesLife>
struct Bench {
  template <class Shape>
  explicit Bench(const Shape& shape, u64 seed, const Accidents& accidents = {})
      : life(shape, seed, [&](const Config& pool, u32 max_logs) {
          auto made = std::make_unique<EmulatedDevice>(pool, max_logs, slot_words(pool), 0, accidents);
          device = made.get();
          return made;
        }) {
    const u64 words = life.memory(0).size();
    device->tables->on_gather = [this, words](const void* memory) {
      const auto* begin = static_cast<const u64*>(memory);
      gathered.emplace_back(begin, begin + words);
    };
  }

  void settle() {
    u64 seen = 0;
    device->tables->read(Table::kQueryStart, std::vector<u8>(life.array(0, Table::kQueryStart).size()).data());
    while (!life.core().poll()) EXPECT(++seen < 100000000, "not settled");
  }

  EmulatedDevice* device = nullptr;
  // Written by the device's thread; read them after it has settled.
  std::vector<std::vector<u64>> gathered;
  Life life;
};

}  // namespace blockstep::test
