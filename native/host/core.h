// HostCore: the block manager, the request table and the KV slot table of one engine, on the host.
//
// It turns operations on slots into a log of facts and applies the log at once. The same log, when recorded, drives
// every other back end. Every operation first drains what TypeScript left in the exchange buffer, checks everything,
// builds its log, and only then changes anything.
//
// The core itself holds no state but its parts: it decides in which order they are asked. Each part has its own state and
// a file of its own, and is given the parts below it.
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

/// Throws Error: kBadArg or a more exact code while nothing is changed; kInvariant when an invariant is found broken
/// (kMirror, kCuda: in the mirror), and from then on always. std::bad_alloc means that the operation did not happen.
class HostCore {
 public:
  HostCore(const HostConfig& config, const Exchange& exchange);
  /// With a device, a mirror there follows every log (mirror/mirror.h), or the device decides (decided/decisions.h).
  HostCore(const HostConfig& config, const Exchange& exchange, std::unique_ptr<Device> device, u32 max_logs);
  HostCore(const HostCore&) = delete;
  HostCore& operator=(const HostCore&) = delete;

  // The step. NativeCore in src/core/native.ts says what each of these does.
  u32 run(u32 frame, u32 from, u32 to);
  u64 add(Span<const std::int32_t> tokens, std::u16string_view adapter, std::u16string_view salt);
  u32 match(u32 slot, u32 max_blocks);
  std::int32_t admit(u32 slot, u32 hit_blocks, u32 reserve_tokens, u32 need_tokens, u32 publish_tokens);
  u32 common_prefix(u32 slot);
  void flush();

  // The step, where the device decides (the words of both spans in decided/decided.h).
  void submit_decision(u32 frame, u32 from, u32 to, Span<const std::int32_t> request);
  /// False: it has not come yet. True: it has, and the state follows it.
  bool poll_decision(Span<std::int32_t> answer);

  // What a model runner reads. The frame is one of the configuration's.
  u64 tables_bytes(u32 max_tokens) const { return host_gather_.bytes(max_tokens); }
  /// Gives a frame its tables: tables_bytes() bytes of zeroed memory, aligned to 8, which stay there as long as this
  /// core calls gather() for the frame. @throws Error kBadArg if it has some
  void bind_tables(u32 frame, void* base, u32 max_tokens);
  /// Fills the frame's tables with its first `num_entries` entries.
  void gather(u32 frame, u32 num_entries);

  // The same on the device of the mirror, where there is one set of tables for all frames (gather/device_gather.h).
  const blockstep_tables& make_device_tables(u32 max_tokens);
  void gather_on_device(u32 frame, u32 num_entries, std::optional<u64> stream);
  void read_device_table(Table which, void* out);
  /// @throws Error kBadArg if there are no tables on a device
  Gatherer& gatherer() const { return device_gather_.gatherer(); }

  // The pool.
  void pin(Span<const std::int32_t> ids);
  void unpin(Span<const std::int32_t> ids);
  void evict(Span<const std::int32_t> ids);
  bool reset();

  // Queries (inspect/queries.h). Block ids are in range: the caller has checked them. Reads into a span fill as much of
  // it as there is, and return how much that was.
  u64 handle(u32 slot);
  u32 num_tokens(u32 slot);
  u32 read_tokens(u32 slot, u32 from, Span<std::int32_t> out);
  u32 read_blocks(u32 slot, u32 from, Span<std::int32_t> out);
  u32 read_free_queue(Span<std::int32_t> out);
  u32 read_published(Span<std::int32_t> out);
  u32 ref_count(u32 id);
  u32 block_generation(u32 id);
  Key block_hash(u32 slot, u32 index);
  void verify();
  u64 digest();
  u64 rolling_digest();

  // The log of facts.
  void record(bool on);
  /// The recorded batches, each with its length in words before it. They stay until forget_log().
  const std::vector<u32>& recorded();
  void forget_log() { facts_.forget_recorded(); }

  // The mirror. Without one these do nothing. kMirror and kCuda poison the core like kInvariant.
  /// The end of a step: the mirror gets its logs.
  void submit(std::optional<u64> stream);
  /// Takes what has come from the mirror. Says whether all that was submitted has.
  bool poll();
  /// @throws Error kLimit if a digest is under way
  void start_mirror_digest();
  /// The digest that was asked for last, once the device has confirmed it.
  std::optional<u64> mirror_digest();
  const Mirror* mirror() const { return mirrored_.mirror(); }
  /// Null: the host decides.
  const Decider* decider() const { return decisions_ ? &decisions_->decider() : nullptr; }

  const HostConfig& config() const { return config_; }
  u64 state_bytes() const { return facts_.bytes(); }
  u64 table_bytes() const { return slots_.table().bytes(); }

 private:
  void require_host_decides(const char* call) const;
  void require_device_decides(const char* call) const;

  // In this order: each is given some of those before it.
  const HostConfig config_;
  const Exchange exchange_;
  Condition condition_;
  Mirrored mirrored_;
  FactLog facts_;
  PoolCommands pool_;
  Slots slots_;
  Running running_;
  Admissions admissions_;
  Pending pending_;
  HostGather host_gather_;
  DeviceGather device_gather_;
  std::optional<Decisions> decisions_;  // none: the host decides
  Queries queries_;
};

}  // namespace blockstep
