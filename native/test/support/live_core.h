// A core with its exchange buffer and the tables of its frames on the host, for the random lives of
// the tables.
#pragma once

#include "../../host/core.h"
#include "support.h"

namespace blockstep::test {

class LiveCore {
 public:
  /// `make_device`: makes the device of the core's mirror from the configuration of its pool and
  /// its maximum of logs.
  template <class MakeDevice>
  LiveCore(const HostConfig& config, u32 max_tokens, const MakeDevice& make_device)
      : config_(config), tables_(tables_shape(config_, max_tokens)),
        words_(Exchange::words_needed(kPending, config.num_frames, config.max_entries, config.pool.num_groups), 0),
        exchange_(words_.data(), kPending, config.max_entries, config.pool.num_groups),
        core_(config_, exchange_, make_device(config.pool, config.num_frames), config.num_frames) {
    for (u32 frame = 0; frame < config.num_frames; ++frame) {
      memory_.emplace_back((core_.tables_bytes(max_tokens) + 7) / 8, 0);
      core_.bind_tables(frame, memory_.back().data(), max_tokens);
    }
    core_.make_device_tables(max_tokens);
  }

  /// The value of `HostConfig::pending_capacity`.
  static constexpr u32 kPending = 64;

  HostCore& core() { return core_; }
  const HostConfig& config() const { return config_; }
  Frame frame(u32 index) { return exchange_.frame(index); }
  /// All tables of a frame, as in memory.
  const std::vector<u64>& memory(u32 frame) const { return memory_[frame]; }

  /// The host's array of a frame.
  std::vector<u8> array(u32 frame, Table which) {
    const Tables at = lay_out_tables(tables_, memory_[frame].data());
    const blockstep_array array = array_of(describe_tables(at, tables_, 0, config_.block_size), which);
    const auto* bytes = reinterpret_cast<const u8*>(static_cast<std::uintptr_t>(array.data));
    return {bytes, bytes + bytes_of(array)};
  }

  void push(PendingOp op, u32 slot, std::int32_t argument) {
    std::int32_t& n = exchange_.control(kNumPending);
    exchange_.pending()[2 * n] = static_cast<std::int32_t>(static_cast<u32>(op) << 24 | slot);
    exchange_.pending()[2 * n + 1] = argument;
    n += 1;
    if (static_cast<u32>(n) == kPending) core_.flush();
  }

  /// Adds a request whose prompt has the same prefix as others of its kind, so that they share
  /// blocks. Returns its slot.
  u32 add(u32 num_tokens, u32 kind) {
    std::vector<std::int32_t> prompt(num_tokens);
    for (u32 i = 0; i < num_tokens; ++i) prompt[i] = static_cast<std::int32_t>(kind * 7919 + i);
    const u64 handle = core_.add({prompt.data(), num_tokens}, u"", u"");
    return static_cast<u32>(handle % kSlotLimit);
  }

  /// Writes an entry of a plan.
  void put(u32 frame, u32 entry, u32 slot, u32 computed, u32 scheduled) {
    const Frame at = exchange_.frame(frame);
    const_cast<std::int32_t*>(at.slots)[entry] = static_cast<std::int32_t>(slot);
    const_cast<std::int32_t*>(at.computed)[entry] = static_cast<std::int32_t>(computed);
    const_cast<std::int32_t*>(at.scheduled)[entry] = static_cast<std::int32_t>(scheduled);
  }

 private:
  const HostConfig config_;
  const TablesShape tables_;
  std::vector<std::int32_t> words_;
  Exchange exchange_;
  HostCore core_;
  std::vector<std::vector<u64>> memory_;
};

}  // namespace blockstep::test
