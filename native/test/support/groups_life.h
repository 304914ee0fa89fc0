// Random lives for the tables of a step with KV cache groups. There are groups of every type with
// blocks of several sizes. Their rows lose and move blocks while requests compute chunks, decode,
// verify drafts, are preempted and come back.
#pragma once

#include "live_core.h"

namespace blockstep::test {

struct GroupsShape {
  const char* name;
  u32 num_blocks, num_rows, max_model_len, most_block_size;  // a power of two
  u32 max_entries, max_tokens, num_frames;
};

/// Short rows that often change owners, and rows of several segments.
constexpr GroupsShape kShortGroups{"short groups", 160, 10, 150, 16, 10, 120, 2};
constexpr GroupsShape kLongGroups{"long groups", 16000, 5, 3000, 2, 5, 6000, 2};

/// A core with random requests, like TablesLife. The seed determines its groups.
class GroupsLife {
 public:
  template <class MakeDevice>
  GroupsLife(const GroupsShape& shape, u64 seed, const MakeDevice& make_device)
      : shape_(shape), random_(seed), life_(configuration(), shape.max_tokens, make_device) {}

  HostCore& core() { return life_.core(); }
  u64 waits() { return core().gatherer().waits(); }
  const std::vector<u64>& memory(u32 frame) const { return life_.memory(frame); }
  std::vector<u8> array(u32 frame, Table which) { return life_.array(frame, which); }

  /// One step, like TablesLife::step().
  u32 step(std::optional<u64> stream = {}) {
    const u32 frame = random_.below(shape_.num_frames);
    core().begin_step();
    change();
    const u32 entries = plan(frame);
    core().submit({});
    core().gather_on_device(frame, entries, stream);
    core().gather(frame, entries);
    if (random_.one_in(20)) core().verify();
    finish();
    return frame;
  }

  /// Requests end, are preempted, or come.
  void change() {
    for (Request& request : requests_) {
      if (request.has_rows && random_.one_in(25)) release(request);
    }
    if (!requests_.empty() && random_.one_in(10)) {
      const u32 at = random_.below(requests_.size());
      life_.push(PendingOp::kClose, requests_[at].slot, 0);
      requests_.erase(requests_.begin() + at);
    }
    if (requests_.size() < shape_.max_entries && random_.one_in(2)) add();
    core().submit({});
  }

 private:
  struct Request {
    u32 slot;
    bool has_rows;
    u32 computed;
    u32 scheduled;  // in the current step
  };

  HostConfig configuration() {
    HostConfig config{};
    config.pool = {shape_.num_blocks, shape_.num_rows, 0, 0};
    config.max_entries = shape_.max_entries;
    config.num_frames = shape_.num_frames;
    config.pending_capacity = LiveCore::kPending;
    config.max_model_len = shape_.max_model_len;
    config.lookahead = random_.below(4);
    config.caching = !random_.one_in(3);
    config.seed = {1, 2};
    config.block_size = shape_.most_block_size;
    const u32 count = 1 + random_.below(5);
    const bool aligned = random_.one_in(2);
    for (u32 g = 0; g < count; ++g) {
      GroupConfig group{};
      const GroupType state = !config.caching ? GroupType::kMambaNone : aligned ? GroupType::kMambaAlign : GroupType::kMambaAll;
      const GroupType types[] = {GroupType::kFull, GroupType::kSliding, GroupType::kChunked, state, state};
      group.type = types[random_.below(5)];
      // Hits of chunks end where blocks of all groups end.
      group.block_size = group.type == GroupType::kChunked ? shape_.most_block_size : shape_.most_block_size >> random_.below(3);
      if (group.block_size == 0) group.block_size = 1;
      if (group.type == GroupType::kMambaNone) group.block_size = whole_request();
      if (group.type == GroupType::kSliding) group.window = 5 + random_.below(3 * shape_.most_block_size);
      if (group.type == GroupType::kChunked) group.chunk = 1 + random_.below(4 * shape_.most_block_size);
      if (group.mamba()) group.spare_blocks = config.lookahead;
      group.spec = g;
      config.block_size = std::min(config.block_size, group.block_size);
      config.groups.push_back(group);
    }
    for (const GroupConfig& group : config.groups) {
      config.pool.max_blocks_per_row = std::max(config.pool.max_blocks_per_row, config.most_places(group));
    }
    config.pool.num_groups = count;
    config.pool.num_rows *= count;
    return config;
  }

  /// Tokens of a block that holds the state of a whole request.
  u32 whole_request() const {
    return (shape_.max_model_len + shape_.most_block_size - 1) / shape_.most_block_size * shape_.most_block_size;
  }

  void add() {
    const u32 most = shape_.max_model_len - 20;
    const u32 tokens = 1 + random_.below(random_.one_in(2) ? most : 20);
    requests_.push_back({life_.add(tokens, random_.below(3)), false, 0, 0});
  }

  void release(Request& request) {
    life_.push(PendingOp::kRelease, request.slot, 0);
    request.has_rows = false;
    request.computed = 0;
  }

  /// Number of tokens that a request computes in this step: some of the known tokens, or the last
  /// token and drafts after it.
  u32 choose(const Request& request, u32 left) {
    const u32 known = core().num_tokens(request.slot) - request.computed;
    if (known > 1) return std::min(left, random_.one_in(3) ? known : 1 + random_.below(known));
    const u32 room = shape_.max_model_len - request.computed;
    return std::min({left, room, 1 + random_.below(core().config().lookahead + 1)});
  }

  /// Running requests come first, then admitted requests, like in a scheduler.
  u32 plan(u32 index) {
    const Frame frame = life_.frame(index);
    u32 left = random_.one_in(8) ? 0 : shape_.max_tokens;
    u32 entries = 0;
    const auto put = [&](Request& request, u32 scheduled) {
      life_.put(index, entries, request.slot, request.computed, scheduled);
      request.scheduled = scheduled;
      left -= scheduled;
      entries += 1;
    };
    for (Request& request : requests_) {
      if (request.has_rows && left != 0 && !random_.one_in(6)) put(request, choose(request, left));
    }
    const u32 fitting = core().run(index, 0, entries);
    for (; entries > fitting; --entries) {
      for (Request& request : requests_) {
        if (static_cast<std::int32_t>(request.slot) != frame.slots[entries - 1]) continue;
        left += request.scheduled;
        request.scheduled = 0;
        release(request);
      }
    }
    for (Request& request : requests_) {
      if (request.has_rows || left == 0 || entries == shape_.max_entries) continue;
      const u32 tokens = core().num_tokens(request.slot);
      const u32 hit = core().config().caching ? core().match_groups(request.slot, tokens - 1) : 0;
      request.computed = hit;
      const u32 scheduled = choose(request, left);
      if (core().admit_groups(request.slot, {hit, 0, 0, 0, scheduled, tokens, 0, 0, 0, 0, true}) < 0) {
        request.computed = 0;
        continue;
      }
      request.has_rows = true;
      put(request, scheduled);
    }
    return entries;
  }

  /// Applies the results of a step: sampled tokens and rejected drafts.
  void finish() {
    for (Request& request : requests_) {
      if (request.scheduled == 0) continue;
      const u32 known = core().num_tokens(request.slot);
      const u32 after = request.computed + request.scheduled;
      request.scheduled = 0;
      if (after < known) {
        request.computed = after;
        continue;
      }
      const u32 sampled = 1 + random_.below(after - known + 1);
      request.computed = known + sampled - 1;
      for (u32 i = 0; i < sampled; ++i) life_.push(PendingOp::kAppend, request.slot, 77);
      if (known + sampled + 5 < shape_.max_model_len) continue;
      life_.push(PendingOp::kClose, request.slot, 0);
      request.slot = kNone;
    }
    std::erase_if(requests_, [](const Request& request) { return request.slot == kNone; });
  }

  const GroupsShape shape_;
  Random random_;
  LiveCore life_;
  std::vector<Request> requests_;
};

}  // namespace blockstep::test
