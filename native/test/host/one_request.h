// A core with one request and tables on an emulated device.
#pragma once

#include "../support/emulated_device.h"
#include "../support/tables_life.h"

namespace blockstep::test {

/// A core with one request of nine tokens in blocks of four, and tables of twelve.
struct OneRequest {
  OneRequest() : words(Exchange::words_needed(4, 1, 3), 0), exchange(words.data(), 4, 3), core(config(), exchange, make(), 2) {
    slot = add();
    EXPECT(core.admit(slot, 0, 9, 9, 9) >= 0, "no row");
    core.make_device_tables(12);
  }

  static HostConfig config() {
    HostConfig config{};
    config.pool = {60, 12, 24, 0};
    config.block_size = 4;
    config.max_entries = 3;
    config.num_frames = 1;
    config.pending_capacity = 4;
    config.max_model_len = 96;
    config.seed = {1, 2};
    return config;
  }
  std::unique_ptr<Device> make() {
    auto made = std::make_unique<EmulatedDevice>(config().pool, 2, slot_words(config().pool), 0);
    device = made.get();
    return made;
  }
  u32 add() {
    const std::int32_t prompt[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    return static_cast<u32>(core.add({prompt, 9}, u"", u"") % kSlotLimit);
  }
  void entry(u32 index, u32 of_slot, std::int32_t computed, std::int32_t scheduled) {
    const Frame frame = exchange.frame(0);
    const_cast<std::int32_t*>(frame.slots)[index] = static_cast<std::int32_t>(of_slot);
    const_cast<std::int32_t*>(frame.computed)[index] = computed;
    const_cast<std::int32_t*>(frame.scheduled)[index] = scheduled;
  }
  void push(PendingOp op, u32 of_slot, std::int32_t argument) {
    const std::int32_t n = exchange.control(kNumPending)++;
    exchange.pending()[2 * n] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | of_slot);
    exchange.pending()[2 * n + 1] = argument;
  }

  std::vector<std::int32_t> words;
  Exchange exchange;
  EmulatedDevice* device = nullptr;
  HostCore core;
  u32 slot = 0;
};

}  // namespace blockstep::test
