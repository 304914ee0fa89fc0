// Random lives for the tables of a step. Requests come and go, are preempted and come back into
// other rows, grow and share prefixes, and every step plans some of them. A device must gather the
// same tables of a plan as the host.
#pragma once

#include "live_core.h"

namespace blockstep::test {

struct LifeShape {
  const char* name;
  u32 num_blocks, num_rows, max_blocks_per_row, block_size;
  u32 max_entries, max_tokens, num_frames;
};

/// Typical shapes of a gather: short rows that often change owners, rows of several segments and
/// long prefills. Also a batch of thousands, and a batch of everything.
constexpr LifeShape kShortRows{"short rows", 60, 12, 24, 4, 12, 100, 2};
constexpr LifeShape kLongRows{"long rows", 4000, 8, 1300, 2, 8, 9000, 2};
constexpr LifeShape kManyRows{"many rows", 12000, 3500, 3, 4, 3500, 9000, 2};
constexpr LifeShape kOne{"one of each", 3, 1, 1, 1, 1, 1, 1};

/// A core with random requests, its exchange buffer, and the tables of its frames on the host.
class TablesLife {
 public:
  /// `make_device`: makes the device of the core's mirror from the configuration of its pool and
  /// its maximum of logs.
  template <class MakeDevice>
  TablesLife(const LifeShape& shape, u64 seed, const MakeDevice& make_device)
      : shape_(shape), random_(seed), life_(configuration(shape), shape.max_tokens, make_device) {}

  HostCore& core() { return life_.core(); }
  u64 waits() { return core().gatherer().waits(); }
  const std::vector<u64>& memory(u32 frame) const { return life_.memory(frame); }
  std::vector<u8> array(u32 frame, Table which) { return life_.array(frame, which); }

  /// One step: the events since the last step, and a plan in some frame, gathered by the host and
  /// by the device. Returns the frame.
  u32 step(std::optional<u64> stream = {}) {
    const u32 frame = random_.below(shape_.num_frames);
    const u32 entries = plan(frame);
    core().submit({});
    core().gather_on_device(frame, entries, stream);
    core().gather(frame, entries);
    return frame;
  }

  /// A change of the state without a plan that computes tokens.
  void change() {
    live();
    core().submit({});
  }

 private:
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
    config.pending_capacity = LiveCore::kPending;
    config.max_model_len = shape.max_blocks_per_row * shape.block_size;
    config.caching = true;
    config.seed = {1, 2};
    return config;
  }

  u32 room_of(const Request& request) {
    ids_.resize(shape_.max_blocks_per_row);
    return core().read_blocks(request.slot, 0, {ids_.data(), shape_.max_blocks_per_row}) * shape_.block_size;
  }

  void add() {
    const u32 most = shape_.max_blocks_per_row * shape_.block_size;
    const u32 tokens = 1 + random_.below(random_.one_in(3) ? most : std::min(most, 9u));
    requests_.push_back({life_.add(tokens, random_.below(3)), false});
    take_row(requests_.back());
  }

  void take_row(Request& request) {
    const u32 tokens = core().num_tokens(request.slot);
    const u32 hits = core().match(request.slot, (tokens - 1) / shape_.block_size);
    request.has_row = core().admit(request.slot, hits, 0, 1 + random_.below(tokens), tokens) >= 0;
  }

  /// Requests come, grow, are preempted, come back, or end.
  void live() {
    const u32 most = shape_.max_blocks_per_row * shape_.block_size;
    const bool crowd = shape_.max_entries > 100 && random_.one_in(4);
    for (u32 n = crowd ? shape_.max_entries : random_.below(3); n != 0 && requests_.size() < shape_.max_entries; --n) add();
    for (Request& request : requests_) {
      if (!request.has_row) {
        if (random_.one_in(3)) take_row(request);
      } else if (random_.one_in(12)) {
        life_.push(PendingOp::kRelease, request.slot, 0);
        request.has_row = false;
      } else if (random_.one_in(5)) {
        core().admit(request.slot, 0, 0, std::min(most, room_of(request) + random_.below(3 * shape_.block_size + 1)), 0);
      }
      if (random_.one_in(6) && core().num_tokens(request.slot) < most) life_.push(PendingOp::kAppend, request.slot, 77);
    }
    if (!requests_.empty() && random_.one_in(crowd ? 30 : 6)) {
      const u32 at = random_.below(requests_.size());
      life_.push(PendingOp::kClose, requests_[at].slot, 0);
      requests_.erase(requests_.begin() + at);
    }
    if (random_.one_in(60)) {
      for (const Request& request : requests_) life_.push(PendingOp::kClose, request.slot, 0);
      requests_.clear();
    }
  }

  /// Plans decodes, chunks, whole rows, or sometimes nothing.
  u32 plan(u32 frame) {
    live();
    const u32 kind = random_.below(8);  // 0: nothing, 1 to 3: one token each, then chunks; 7: whole rows
    u32 left = shape_.max_tokens;
    u32 entries = 0;
    for (const Request& request : requests_) {
      if (kind == 0 || left == 0) break;
      if (!request.has_row || random_.one_in(5)) continue;
      const u32 room = room_of(request);
      const u32 before = kind == 7 ? 0 : random_.below(room);
      const u32 tokens = kind < 4 ? 1 : kind == 7 ? room : 1 + random_.below(room - before);
      life_.put(frame, entries, request.slot, before, std::min(left, tokens));
      left -= std::min(left, tokens);
      entries += 1;
    }
    return entries;
  }

  const LifeShape shape_;
  Random random_;
  LiveCore life_;
  std::vector<Request> requests_;
  std::vector<std::int32_t> ids_;
};

}  // namespace blockstep::test
