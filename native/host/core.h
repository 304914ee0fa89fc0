// HostCore: the block manager, the request table and the KV slot table of one engine, on the host.
//
// It turns operations on slots into a log of facts and applies the log at once. The same log, when recorded, drives
// every other back end. Every operation first drains what TypeScript left in the exchange buffer, checks everything,
// builds its log, and only then changes anything.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../core/blocks/apply.h"
#include "decided/decided.h"
#include "decided/decider.h"
#include "../base/error.h"
#include "exchange.h"
#include "requests/free_rows.h"
#include "gather/gatherer.h"
#include "log/log_writer.h"
#include "../base/memory.h"
#include "mirror/mirror.h"
#include "requests/request_table.h"
#include "tables/tables.h"

namespace blockstep {

/// Who decides which blocks a request gets: this instance, or the device's, which it follows then.
enum class Authority : u32 { kHost, kDevice };

struct HostConfig {
  Config pool;
  u32 block_size;        // 1 .. 2^16
  u32 max_entries;
  u32 num_frames;
  u32 pending_capacity;
  u32 lookahead;         // 0 .. 2^16
  u32 max_model_len;     // 1 .. kMaxTokens - 1; fits in max_blocks_per_row blocks
  bool caching;
  Key seed;
  Authority authority = Authority::kHost;
};

/// A list that the caller owns.
template <class T>
struct Span {
  T* data;
  u32 size;
};

constexpr std::int32_t kNotEnoughBlocks = -1;
constexpr std::int32_t kNoFreeRow = -2;

/// Throws Error: kBadArg or a more exact code while nothing is changed; kInvariant when an invariant is found broken
/// (kMirror, kCuda: in the mirror), and from then on always. std::bad_alloc means that the operation did not happen.
class HostCore {
 public:
  HostCore(const HostConfig& config, const Exchange& exchange);
  /// With a device, a mirror there follows every log (mirror.h), or the device decides (decided.cc).
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

  // The step, where the device decides (decided.cc; the words of both spans in decided.h).
  void submit_decision(u32 frame, u32 from, u32 to, Span<const std::int32_t> request);
  /// False: it has not come yet. True: it has, and the state follows it.
  bool poll_decision(Span<std::int32_t> answer);

  // What a model runner reads (tables.cc). The frame is one of the configuration's.
  u64 tables_bytes(u32 max_tokens) const;
  /// Gives a frame its tables: tables_bytes() bytes of zeroed memory, aligned to 8, which stay there as long as this
  /// core calls gather() for the frame. @throws Error kBadArg if it has some
  void bind_tables(u32 frame, void* base, u32 max_tokens);
  /// Fills the frame's tables with its first `num_entries` entries.
  void gather(u32 frame, u32 num_entries);

  // The same on the device of the mirror (gathered.cc), where there is one set of tables for all frames.
  /// Makes the tables, at the first call. @throws Error kCuda without a device, kNoMemory; kBadArg if there are some of
  /// another size
  const blockstep_tables& make_device_tables(u32 max_tokens);
  /// Has the device fill its tables with the frame's first `num_entries` entries, behind all logs so far. With a
  /// stream: behind what is queued there now, and before what will be. Waits for nothing but what gatherer.h names.
  void gather_on_device(u32 frame, u32 num_entries, std::optional<u64> stream);
  /// For tests and for debugging: waits for the device, and copies an array of the tables.
  void read_device_table(Table which, void* out);
  /// @throws Error kBadArg if there are no tables on a device
  Gatherer& gatherer() const;

  // The pool.
  void pin(Span<const std::int32_t> ids);
  void unpin(Span<const std::int32_t> ids);
  void evict(Span<const std::int32_t> ids);
  bool reset();

  // Queries (queries.cc). Block ids are in range: the caller has checked them. Reads into a span fill as much of it as
  // there is, and return how much that was.
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
  void forget_log() { recorded_ = {}; }

  // The mirror (mirrored.cc). Without one these do nothing. kMirror and kCuda poison the core like kInvariant.
  /// The end of a step: the mirror gets its logs.
  void submit(std::optional<u64> stream);
  /// Takes what has come from the mirror. Says whether all that was submitted has.
  bool poll();
  /// @throws Error kLimit if a digest is under way
  void start_mirror_digest();
  /// The digest that was asked for last, once the device has confirmed it.
  std::optional<u64> mirror_digest();
  const Mirror* mirror() const { return mirror_.get(); }
  /// Null: the host decides.
  const Decider* decider() const { return decider_ ? &*decider_ : nullptr; }

  const HostConfig& config() const { return config_; }
  u64 state_bytes() const { return state_memory_.bytes() + ids_memory_.bytes(); }
  u64 table_bytes() const { return table_.bytes(); }

 private:
  /// An entry of a frame that needs more than the two comparisons.
  struct Work {
    u32 entry;
    u32 slot;
    u32 take;        // blocks to take
    u32 publish_to;  // leading blocks of the row that are to be published
  };
  /// An admission that the device is asked for.
  struct Asked {
    u32 slot;
    Admission admission;
  };
  /// What the decision under way was asked for, besides work_ and admissions_.
  struct Asking {
    u32 frame;
    u32 from;
    u32 to;
    bool whole;  // the batch has all of it
  };
  /// The answer to the last match(), good as long as nothing changed.
  struct Match {
    u32 slot = kNone;
    u64 version = 0;  // State::num_commands then
    u32 count = 0;
    std::vector<u32> ids;
  };

  // core.cc: what every operation is made of.
  void require_sound() const;
  void require_host_decides(const char* call) const;
  void begin_change() const;
  [[noreturn]] void poison(std::string what, const char* code = kInvariant);
  void begin_log();
  void commit();
  void write_down(const u32* log, u32 words);
  void publish_counts();
  Slot& open_slot(u32 slot);
  void check_ids(Span<const std::int32_t> ids) const;
  void commit_ids(Op op, Span<const std::int32_t> ids);
  u32 blocks_for(u32 tokens) const { return (tokens + config_.block_size - 1) / config_.block_size; }
  void set_row(Slot& slot, u32 row, u32 num_blocks, u32 num_published);
  void log_publications(Slot& slot, u32 row, u32 have, u32 from, u32 to);
  bool needs_publication(u32 id);
  u32 shared_prefix(const Slot& slot) const;
  const char* verify_slots() const;

  template <class Call>
  auto ask_mirror(const Call& call);
  void mirror_log(u32 taken);

  // decided.cc
  void require_decider(const char* call) const;
  void set_deciding(bool deciding);
  void check_request(Span<const std::int32_t> request) const;
  void read_admissions(const Frame& frame, u32 from, u32 to, Span<const std::int32_t> request);
  bool write_running();
  bool write_admissions();
  void follow(const Decision& decision);
  void check_row(u32 row, u32 num_blocks);
  u64 take_running(const DecisionHeader& header);
  u32 entries_done(const DecisionHeader& header);
  AnswerAdmission take_answer(const Asked& asked, const AdmissionAnswer& answer, bool admitted);

  // pending.cc: what TypeScript left in the exchange buffer.
  void drain();
  void drain_pending(u32 count);
  void apply_pending(u32 word, std::int32_t argument);
  void release_row(Slot& slot);
  void evict_row(Slot& slot, u32 from);

  // step.cc: run and admit.
  static void check_range(u32 from, u32 to);
  void check_frame(const Frame& frame, u32 from, u32 to) const;
  u32 plan_run(const Frame& frame, u32 from, u32 to, u32 limit, u64 left);
  bool plan_entry(u32 entry, u32 slot, u32 target, u32 full_tokens, u64& left);
  void finish_run(const Frame& frame);
  void publish_common_prefix();
  Span<const u32> hits_for(u32 slot, u32 hit_blocks);

  // tables.cc
  void check_gather(const Frame& frame, u32 num_entries, u32 max_tokens) const;
  void gather_entry(FrameTables& tables, const Frame& frame, u32 entry, u32 token) const;
  static u32 known_tokens(const Slot& slot, u32 computed, u32 scheduled);

  HostConfig config_;
  Exchange exchange_;
  OwnedState state_memory_;
  State& state_;
  Memory ids_memory_;  // where apply() puts the ids it takes; at most every block at once
  RequestTable table_;
  FreeRows free_rows_;
  LogWriter log_;
  std::vector<Work> work_;
  std::vector<u32> claimed_;  // shared blocks that the log being built publishes
  Match match_;
  std::vector<FrameTables> tables_;  // [num_frames]
  bool recording_ = false;
  std::vector<u32> recorded_;
  std::string poisoned_;
  const char* poison_code_ = kInvariant;
  std::unique_ptr<Mirror> mirror_;  // null: there is only the host
  std::unique_ptr<Gatherer> gatherer_;  // null: the mirror's device has no tables. It uses the device
  std::optional<Decider> decider_;      // none: the host decides
  BatchWriter batch_;
  bool deciding_ = false;  // a batch is under way
  std::vector<Asked> admissions_;
  Asking asked_{};
};

/// Runs one call of the mirror or its device. Whatever it throws poisons the core: host and device no longer agree, or
/// nobody can say whether they do.
template <class Call>
auto HostCore::ask_mirror(const Call& call) {
  try {
    return call();
  } catch (Error& error) {
    poison(std::move(error.message), error.code);
  } catch (const std::bad_alloc&) {
    poison("out of memory for what the mirror still has to apply", kMirror);
  }
}

}  // namespace blockstep
