// Random lives for the tables of a step: requests come and go, are preempted and come back into other rows, grow and share
// prefixes, and every step plans some of them. What the host gathers of a plan is what a device must have gathered.
#pragma once

#include "../../host/core.h"
#include "support.h"

namespace blockstep::test {

struct LifeShape {
  const char* name;
  u32 num_blocks, num_rows, max_blocks_per_row, block_size;
  u32 max_entries, max_tokens, num_frames;
};

/// What a gather meets: short rows that change hands all the time; rows of several segments and long prefills; a batch
/// of thousands; and one of everything.
constexpr LifeShape kShortRows{"short rows", 60, 12, 24, 4, 12, 100, 2};
constexpr LifeShape kLongRows{"long rows", 4000, 8, 1300, 2, 8, 9000, 2};
constexpr LifeShape kManyRows{"many rows", 12000, 3500, 3, 4, 3500, 9000, 2};
constexpr LifeShape kOne{"one of each", 3, 1, 1, 1, 1, 1, 1};

/// A core that lives, with its exchange buffer and the tables of its frames on the host.
class TablesLife {
 public:
  /// `make_device`: what makes the device of the core's mirror from the configuration of its pool and its bound of logs.
  template <class MakeDevice>
  TablesLife(const LifeShape& shape, u64 seed, const MakeDevice& make_device)
      : shape_(shape), random_(seed), words_(Exchange::words_needed(kPending, shape.num_frames, shape.max_entries), 0),
        exchange_(words_.data(), kPending, shape.max_entries),
        core_(configuration(shape), exchange_, make_device(configuration(shape).pool, shape.num_frames), shape.num_frames) {
    for (u32 frame = 0; frame < shape.num_frames; ++frame) {
      memory_.emplace_back((core_.tables_bytes(shape.max_tokens) + 7) / 8, 0);
      core_.bind_tables(frame, memory_.back().data(), shape.max_tokens);
    }
    core_.make_device_tables(shape.max_tokens);
  }

  HostCore& core() { return core_; }
  u64 waits() const { return core_.gatherer().waits(); }

  /// One step: what happened since the last one, and a plan in some frame, gathered by the host and by the device.
  /// Returns the frame.
  u32 step(std::optional<u64> stream = {}) {
    const u32 frame = random_.below(shape_.num_frames);
    const u32 entries = plan(frame);
    core_.submit({});
    core_.gather_on_device(frame, entries, stream);
    core_.gather(frame, entries);
    return frame;
  }

  /// Something that changes the state, without a plan that computes anything.
  void change() {
    live();
    core_.submit({});
  }

  /// The host's array of a frame.
  std::vector<u8> array(u32 frame, Table which) {
    const TablesShape shape{shape_.max_tokens, shape_.max_entries, shape_.max_blocks_per_row};
    const Tables at = lay_out_tables(shape, memory_[frame].data());
    const blockstep_array array = array_of(describe_tables(at, shape, 0, shape_.block_size), which);
    const auto* bytes = reinterpret_cast<const u8*>(static_cast<std::uintptr_t>(array.data));
    return {bytes, bytes + bytes_of(array)};
  }
  /// All of a frame's tables, as they lie in memory.
  const std::vector<u64>& memory(u32 frame) const { return memory_[frame]; }

 private:
  static constexpr u32 kPending = 64;
  struct Request {
    u32 slot;
    bool has_row;
  };

  static HostConfig configuration(const LifeShape& shape) {
    HostConfig config{};
    config.pool = {shape.num_blocks, shape.num_rows, shape.max_blocks_per_row, 0};
    config.block_size = shape.block_size;
    config.max_entries = shape.max_entries;
    config.num_frames = shape.num_frames;
    config.pending_capacity = kPending;
    config.max_model_len = shape.max_blocks_per_row * shape.block_size;
    config.caching = true;
    config.seed = {1, 2};
    return config;
  }

  void push(PendingOp op, u32 slot, std::int32_t argument) {
    std::int32_t& n = exchange_.control(kNumPending);
    exchange_.pending()[2 * n] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange_.pending()[2 * n + 1] = argument;
    n += 1;
    if (static_cast<u32>(n) == kPending) core_.flush();
  }

  u32 room_of(const Request& request) {
    ids_.resize(shape_.max_blocks_per_row);
    return core_.read_blocks(request.slot, 0, {ids_.data(), shape_.max_blocks_per_row}) * shape_.block_size;
  }

  void add() {
    const u32 most = shape_.max_blocks_per_row * shape_.block_size;
    std::vector<std::int32_t> prompt(1 + random_.below(random_.one_in(3) ? most : std::min(most, 9u)));
    const u32 kind = random_.below(3);  // three prefixes, so that many share blocks
    for (u32 i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(kind * 7919 + i);
    const u64 handle = core_.add({prompt.data(), static_cast<u32>(prompt.size())}, u"", u"");
    requests_.push_back({static_cast<u32>(handle % kSlotLimit), false});
    take_row(requests_.back());
  }

  void take_row(Request& request) {
    const u32 tokens = core_.num_tokens(request.slot);
    const u32 hits = core_.match(request.slot, (tokens - 1) / shape_.block_size);
    request.has_row = core_.admit(request.slot, hits, 0, 1 + random_.below(tokens), tokens) >= 0;
  }

  /// Requests come, grow, are preempted, come back, end.
  void live() {
    const u32 most = shape_.max_blocks_per_row * shape_.block_size;
    const bool crowd = shape_.max_entries > 100 && random_.one_in(4);
    for (u32 n = crowd ? shape_.max_entries : random_.below(3); n != 0 && requests_.size() < shape_.max_entries; --n) add();
    for (Request& request : requests_) {
      if (!request.has_row) {
        if (random_.one_in(3)) take_row(request);
      } else if (random_.one_in(12)) {
        push(PendingOp::kRelease, request.slot, 0);
        request.has_row = false;
      } else if (random_.one_in(5)) {
        core_.admit(request.slot, 0, 0, std::min(most, room_of(request) + random_.below(3 * shape_.block_size + 1)), 0);
      }
      if (random_.one_in(6) && core_.num_tokens(request.slot) < most) push(PendingOp::kAppend, request.slot, 77);
    }
    if (!requests_.empty() && random_.one_in(crowd ? 30 : 6)) {
      const u32 at = random_.below(requests_.size());
      push(PendingOp::kClose, requests_[at].slot, 0);
      requests_.erase(requests_.begin() + at);
    }
    if (random_.one_in(60)) {
      for (const Request& request : requests_) push(PendingOp::kClose, request.slot, 0);
      requests_.clear();
    }
  }

  /// Decodes, chunks, or all that there is; sometimes nothing.
  u32 plan(u32 frame) {
    live();
    const Frame at = exchange_.frame(frame);
    auto* slots = const_cast<std::int32_t*>(at.slots);
    auto* scheduled = const_cast<std::int32_t*>(at.scheduled);
    auto* computed = const_cast<std::int32_t*>(at.computed);
    const u32 kind = random_.below(8);  // 0: nothing, 1 to 3: one token each, then chunks; 7: whole rows
    u32 left = shape_.max_tokens;
    u32 entries = 0;
    for (const Request& request : requests_) {
      if (kind == 0 || left == 0) break;
      if (!request.has_row || random_.one_in(5)) continue;
      const u32 room = room_of(request);
      const u32 before = kind == 7 ? 0 : random_.below(room);
      const u32 tokens = kind < 4 ? 1 : kind == 7 ? room : 1 + random_.below(room - before);
      slots[entries] = static_cast<std::int32_t>(request.slot);
      computed[entries] = static_cast<std::int32_t>(before);
      scheduled[entries] = static_cast<std::int32_t>(std::min(left, tokens));
      left -= std::min(left, tokens);
      entries += 1;
    }
    return entries;
  }

  const LifeShape shape_;
  Random random_;
  std::vector<std::int32_t> words_;
  Exchange exchange_;
  HostCore core_;
  std::vector<std::vector<u64>> memory_;
  std::vector<Request> requests_;
  std::vector<std::int32_t> ids_;
};

}  // namespace blockstep::test
