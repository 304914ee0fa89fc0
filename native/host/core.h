// HostCore: the block manager, the request table and the KV slot table of one engine, on the host.
//
// It turns operations on slots into a log of facts and applies the log at once. The recorded log
// drives every other back end. An operation checks its arguments, drains the pending operations in
// the exchange buffer, and checks the rest against the state. It then builds its log, and only
// afterwards changes anything. While a decision of the device is pending, pending operations stay
// where they are.
//
// The core has no state besides its parts, and only decides in which order they are called. Each
// part has its own state and file, and gets references to lower parts.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "../base/span.h"
#include "base/condition.h"
#include "base/config.h"
#include "base/exchange.h"
#include "decided/decisions.h"
#include "gather/device_gather.h"
#include "groups/groups.h"
#include "gather/host_gather.h"
#include "inspect/queries.h"
#include "log/fact_log.h"
#include "log/pool_commands.h"
#include "mirror/mirrored.h"
#include "requests/slots.h"
#include "step/admissions.h"
#include "step/pending.h"
#include "step/running.h"

namespace blockstep {

/// All operations throw Error. kBadArg or a more exact code: nothing was changed. kInvariant: an
/// invariant is broken (kMirror, kCuda: on the device). The core is then poisoned, and every later
/// operation throws the same error. std::bad_alloc: the operation did not happen.
class HostCore {
 public:
  HostCore(const HostConfig& config, const Exchange& exchange);
  /// With a device, a mirror there applies every log (mirror/mirror.h), or, with
  /// Authority::kDevice, the device decides (decided/decisions.h). `max_logs`: maximum number of
  /// outstanding logs of the device.
  HostCore(const HostConfig& config, const Exchange& exchange, std::unique_ptr<Device> device, u32 max_logs);
  HostCore(const HostCore&) = delete;
  HostCore& operator=(const HostCore&) = delete;

  // The step. NativeCore in src/core/native/native.ts documents these operations.
  u32 run(u32 frame, u32 from, u32 to);
  u64 add(Span<const std::int32_t> tokens, std::u16string_view adapter, std::u16string_view salt);
  u32 match(u32 slot, u32 max_blocks);
  std::int32_t admit(u32 slot, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens,
                     u32 spare_blocks = 0, u32 reserved_blocks = 0);
  u32 common_prefix(u32 slot);
  void flush();

  // The step of a core with KV cache groups, in place of run(), match() and admit():
  /// Begins a step. Mamba states that were published earlier exist from now on.
  void begin_step();
  u32 match_groups(u32 slot, u32 max_tokens);
  std::int32_t admit_groups(u32 slot, const GroupAdmission& asked);
  /// Blocks that must be free for the admission, in total and by group. See
  /// GroupAdmissions::needed().
  u64 needed_groups(u32 slot, const GroupAdmission& asked, NeededBlocks& by_group);
  /// Writes kGroupCommonPrefix for the slot.
  void common_prefix_groups();
  /// Drops the blocks that the slot does not need after `computed` tokens.
  void drop_groups(u32 slot, u32 computed);
  u32 junction(u32 slot);
  std::vector<u32> drain_zeroed();
  std::vector<u32> drain_dropped();

  // The step of a core whose device decides. decided/decided.h describes the words of both spans.
  // @throws Error kAuthority if the host decides
  void submit_decision(u32 frame, u32 from, u32 to, Span<const std::int32_t> request);
  /// Returns false if the decision has not arrived yet. Otherwise the state follows it, `answer` is
  /// written, and the result is true.
  bool poll_decision(Span<std::int32_t> answer);

  // The tables that a model runner reads. `frame` is below num_frames.
  /// Bytes of the tables of one frame.
  u64 tables_bytes(u32 max_tokens) const { return host_gather_.bytes(max_tokens); }
  /// Binds a frame to memory for its tables: tables_bytes() bytes, zeroed and aligned to 8. The
  /// memory must stay valid while gather() is called for the frame. @throws Error kBadArg if the
  /// frame is bound already
  void bind_tables(u32 frame, void* base, u32 max_tokens);
  /// Fills the frame's tables with its first `num_entries` entries.
  void gather(u32 frame, u32 num_entries);

  // The tables on the mirror's device: one set for all frames (gather/device_gather.h).
  const blockstep_tables& make_device_tables(u32 max_tokens);
  void gather_on_device(u32 frame, u32 num_entries, std::optional<u64> stream);
  void read_device_table(Table which, void* out);
  /// @throws Error kBadArg if there are no tables on a device
  Gatherer& gatherer() const { return device_gather_.gatherer(); }

  // Commands on block ids (log/pool_commands.h).
  void pin(Span<const std::int32_t> ids);
  void unpin(Span<const std::int32_t> ids);
  void evict(Span<const std::int32_t> ids);
  bool reset();

  // Queries (inspect/queries.h). The caller has checked that block ids are in range. Reads into a
  // span write as many elements as exist and fit, and return their number.
  u64 handle(u32 slot);
  u32 num_tokens(u32 slot);
  u32 read_tokens(u32 slot, u32 from, Span<std::int32_t> out);
  u32 read_blocks(u32 slot, u32 from, Span<std::int32_t> out, u32 group = 0);
  /// The group that the block is published for, or 0 if the block is not published.
  u32 published_group(u32 id);
  /// Only for a core with groups; see GroupCensus.
  std::vector<u8> groups_of_blocks();
  std::vector<GroupCount> count_groups();
  u32 read_free_queue(Span<std::int32_t> out);
  u32 read_published(Span<std::int32_t> out);
  u32 ref_count(u32 id);
  u32 block_generation(u32 id);
  /// The key that the block is published under. Empty if it is not published.
  std::optional<Key> published_key(u32 id);
  Key block_hash(u32 slot, u32 index);
  void verify();
  u64 digest();
  u64 rolling_digest();

  // The log of facts.
  void record(bool on);
  /// The recorded logs in order, each preceded by its length in words. They are kept until
  /// forget_log().
  const std::vector<u32>& recorded();
  void forget_log() { facts_.forget_recorded(); }

  // Events of the prefix cache (events/kv_events.h).
  /// The events since the last forget_kv_events().
  const std::vector<u32>& kv_events();
  void forget_kv_events();

  // The mirror. A core without a mirror accepts these calls too; see Mirrored. kMirror and kCuda
  // poison the core, like kInvariant.
  /// Ends a step: gives the step's logs to the mirror. With a stream, they are ordered with its
  /// work as in Mirror::submit().
  void submit(std::optional<u64> stream);
  /// Takes the completions that have arrived from the mirror. Returns whether the mirror has
  /// applied all submitted logs.
  bool poll();
  /// Asks the mirror for the digest of its state. @throws Error kLimit if a digest is already
  /// pending
  void start_mirror_digest();
  /// The last requested digest, once the device has confirmed it. Without a mirror, the digest of
  /// the host.
  std::optional<u64> mirror_digest();
  const Mirror* mirror() const { return mirrored_.mirror(); }
  /// Null if the host decides.
  const Decider* decider() const { return decisions_ ? &decisions_->decider() : nullptr; }

  const HostConfig& config() const { return config_; }
  u64 state_bytes() const { return facts_.bytes(); }
  u64 table_bytes() const { return slots_.table().bytes(); }

 private:
  u32 run_step(u32 frame, u32 from, u32 to);
  void require_host_decides(const char* call) const;
  void require_groups(const char* call) const;
  void require_device_decides(const char* call) const;

  // The order matters, because each part gets references to earlier parts.
  const HostConfig config_;
  const Exchange exchange_;
  Condition condition_;
  Mirrored mirrored_;
  FactLog facts_;
  PoolCommands pool_;
  Slots slots_;
  Running running_;
  Admissions admissions_;
  const std::unique_ptr<Groups> groups_;  // null without KV cache groups
  Pending pending_;
  HostGather host_gather_;
  DeviceGather device_gather_;
  std::optional<Decisions> decisions_;  // empty if the host decides
  Queries queries_;
};

}  // namespace blockstep
