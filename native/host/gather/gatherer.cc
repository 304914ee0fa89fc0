#include "gatherer.h"

#include <algorithm>
#include <thread>

namespace blockstep {

Gatherer::Gatherer(Device& device, const TablesShape& shape, u32 block_size, const GatherLimits& limits)
    : device_(device),
      shape_(shape),
      limits_(limits),
      tables_(device.make_tables(shape, block_size, limits.slots)),
      words_(max_gather_words(shape)),
      of_slot_(limits.slots, 0) {}

void Gatherer::begin(u32 num_entries, u32 uniform) {
  head_ = {};
  head_.num_entries = num_entries;
  head_.uniform = uniform;
  entry_ = 0;
  longest_ = 0;
}

void Gatherer::add(u32 row, u32 computed, u32 scheduled, u32 num_blocks, const std::int32_t* known, u32 num_known) {
  const u32 entries = head_.num_entries;
  words_[entry_] = row;
  words_[entries + entry_] = computed;
  if (head_.uniform == 0) words_[u64{2} * entries + entry_] = head_.num_tokens;
  u32* ids = words_.data() + u64{head_.uniform == 0 ? 3u : 2u} * entries + head_.num_tokens;
  std::transform(known, known + num_known, ids, [](std::int32_t id) { return static_cast<u32>(id); });
  std::fill(ids + num_known, ids + scheduled, kNone);
  head_.num_tokens += scheduled;
  longest_ = std::max(longest_, num_blocks);
  entry_ += 1;
}

void Gatherer::launch(std::optional<u64> stream, const std::function<bool()>& give_logs, const Join& join) {
  head_.number = static_cast<u32>(given_ + 1);
  head_.last_entries = last_.num_entries;
  head_.last_tokens = last_.num_tokens;
  head_.segments = (std::max({longest_, last_longest_, 1u}) + kSegmentBlocks - 1) / kSegmentBlocks;
  const u64 words = u64{head_.uniform == 0 ? 3u : 2u} * head_.num_entries + head_.num_tokens;
  if (!stream && join && device_.joins() && launch_joined(join, words)) return note_given();
  if (!give_logs()) wait_until("the log of a step could not be given to the device", give_logs);
  const Carrier carrier = gather_carrier_of(words);
  if (carrier == Carrier::kSlot && !slot_is_free()) {
    wait_until("no slot for a gather came back", [&] { return slot_is_free(); });
  }
  if (stream) device_.follow(*stream);
  if (carrier == Carrier::kSlot) {
    std::copy_n(words_.data(), words, tables_.slot(next_slot_));
    tables_.gather_slot(head_, next_slot_, static_cast<u32>(words));
    of_slot_[next_slot_] = given_ + 1;
    next_slot_ = (next_slot_ + 1) % limits_.slots;
  } else {
    tables_.gather_value(head_, carrier, words_.data(), static_cast<u32>(words));
  }
  if (stream) device_.lead(*stream);
  note_given();
}

/// Gives the device the gather together with the last log, if one parameter has room for both.
bool Gatherer::launch_joined(const Join& join, u64 words) {
  if (words >= kLargeJointWords) return false;
  const u32 count = static_cast<u32>(words);
  const u32 room = (kLargeJointWords - count) / 4 * 4;
  return join(room, [&](Job job, const u32* log, u32 log_words) {
    device_.apply_and_gather(job, log, log_words, head_, words_.data(), count);
  });
}

void Gatherer::note_given() {
  given_ += 1;
  last_ = head_;
  last_longest_ = longest_;
}

/// Whether the next slot is free, because the gather whose message lies there is done. Gathers end
/// in order.
bool Gatherer::slot_is_free() const { return of_slot_[next_slot_] <= done(); }

/// Waits until ready() returns true. @throws Error kCuda after `patience`, and the errors of
/// `ready` and the device
template <class Ready>
void Gatherer::wait_until(const char* what, const Ready& ready) {
  waits_ += 1;
  const auto deadline = std::chrono::steady_clock::now() + limits_.patience;
  do {
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error{kCuda, std::string(what) + " within " + std::to_string(limits_.patience.count()) + " ms"};
    }
    device_.check();
    std::this_thread::yield();
  } while (!ready());
}

}  // namespace blockstep
