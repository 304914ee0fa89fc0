// ReferenceModel: an executor that really uses the memory it is given.
//
// A step writes one entry for every token that it computes, at the slot that the slot mapping names, and then, when all
// entries of the step are written, reads every sequence back through its block table. It computes what it
// samples from what it read. It also keeps an unpaged copy of every request, so that it finds and reports whatever is
// not as it must be.
//
// What may be shared: a block that a request got from the prefix cache may have been written by any other request, as
// long as every entry is of the same token, position and prefix. Everything behind the cached prefix the request must
// have written itself, into blocks that it took itself, and nobody may have taken these since. The plans say who took a
// block when: a running entry took its new blocks, an admitted one the blocks behind its cached prefix. adopt() says
// which blocks lanes have loaded: they are part of a cached prefix, and are judged by what they hold.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../base/error.h"
#include "../base/span.h"
#include "memory/entry_memory.h"
#include "memory/possession.h"
#include "sequence/continuation.h"
#include "sequence/sequence.h"
#include "step/step_io.h"

namespace blockstep {

class ReferenceModel {
 public:
  /// Over memory of num_blocks blocks of block_size entries, never written. @throws Error kNoMemory
  ReferenceModel(const ReferenceConfig& config, std::unique_ptr<EntryMemory> memory);
  /// Over memory of the host. @throws Error kNoMemory
  explicit ReferenceModel(const ReferenceConfig& config);
  ReferenceModel(const ReferenceModel&) = delete;
  ReferenceModel& operator=(const ReferenceModel&) = delete;

  /// Computes one step: reads the plan from `io`, the tables, and the tokens of admitted entries one entry after the
  /// other; writes the answer to `io`. Steps must run in the order of their plans; a step out of order
  /// is found out.
  /// @throws Error kBadArg for a plan that makes no sense, and nothing is changed; kNoMemory, and from then on kInvariant
  void step(const StepIo& io, const Tables& tables, Span<const std::int32_t> known);

  // A step in parts, for memory that writes and reads by itself: check(), put(), and when all entries are written and can
  // be read, judge(). All parts of a step get the same arguments.

  /// Does the plan make sense by itself? Reads and changes nothing of the model. @throws Error kBadArg
  void check(const StepIo& io, Span<const std::int32_t> known);
  /// Finds out what is to be computed, and puts the entries. @throws as step()
  void put(const StepIo& io, const Tables& tables, Span<const std::int32_t> known);
  /// Reads every sequence back, and answers. @throws as step()
  void judge(const StepIo& io, const Tables& tables);

  /// Says that this request took these blocks and that lanes have filled them: the entries they hold now are what it
  /// loaded. A block that no lane filled since it was taken last is wiped.
  /// @throws Error kBadArg, kInvariant; and nothing is changed
  void adopt(u64 handle, Span<const std::int32_t> blocks);

  const ReferenceConfig& config() const { return config_; }
  /// The KV memory, in blocks of block_size entries.
  const std::shared_ptr<BlockArena>& blocks() const { return memory_->blocks(); }
  /// Bytes of the KV memory and of the record of who has which block. The copies, 12 bytes per known token, come on top.
  u64 arena_bytes() const { return blocks()->bytes() + possessions_.bytes(); }
  u32 num_sequences() const { return static_cast<u32>(sequences_.size()); }

 private:
  /// What this step does with one entry.
  struct Work {
    Sequence* sequence;
    u32 entry;
    u32 query;   // index of its first token in the step
    u32 first;   // position of the first token that is computed
    u32 end;     // behind the last one, drafts included
    u32 shift;   // how many positions further the plan is, for drafts that were rejected since it was made
    u32 planned_end;  // behind the last one by the plan
    u32 known;   // tokens without the drafts of this step
    u32 trespassed;  // the last block of others that it wrote into, which is reported once
    bool skip;       // it cannot be computed
    bool faulty;
  };

  // plan.cc: what is to be done, and whether tables and plan agree.
  void begin(const StepIo& io, const Tables& tables, Span<const std::int32_t> known);
  Sequence* admit(const StepIo& io, u32 entry, const std::int32_t* known);
  void take_blocks(const StepIo& io, const Tables& tables, Work& work);
  void plan_entry(const StepIo& io, const Tables& tables, Work& work);
  void check_told(const StepIo& io, Work& work);
  void take_inputs(const Tables& tables, Work& work, u32 count);
  void settle(const StepIo& io, const Tables& tables, Work& work, u32 num_drafts);
  void take_drafts(const StepIo& io, Work& work);
  void retire(u64 handle);
  void forget_retired();

  // reference.cc: the memory.
  void write(const Tables& tables, Work& work);
  void write_entry(Work& work, u32 position, std::int64_t slot, u32 mapping);
  void report_astray();
  void read(const Tables& tables, Work& work);
  void read_block(Work& work, std::int32_t named, u32 index, u32 to);
  void judge_entry(Work& work, u32 position, u32 block, const KvEntry& entry);
  void answer(const StepIo& io, Work& work);
  void draft(Sequence& sequence);
  void report(Work& work, Finding finding);
  void publish_findings(const StepIo& io) const;
  void require_sound() const {
    if (!poisoned_.empty()) throw Error{kInvariant, poisoned_};
  }
  template <class Part>
  void attempt(const Part& part);

  const std::int32_t* row(const Tables& tables, u32 entry) const {
    return tables.block_table + u64{entry} * config_.tables.max_blocks_per_row;
  }
  std::int64_t slot_in(const std::int32_t* row, u32 position) const {
    return std::int64_t{row[position / config_.block_size]} * config_.block_size + position % config_.block_size;
  }

  ReferenceConfig config_;
  std::unique_ptr<EntryMemory> memory_;
  Possessions possessions_;
  Continuation continuation_;
  std::unordered_map<u64, std::unique_ptr<Sequence>> sequences_;  // by handle
  std::vector<u64> by_slot_;  // handle of the last request that was admitted in each slot; 0 = none
  struct Retired {
    u64 handle;
    u64 step;
  };
  std::vector<Retired> retired_;
  std::vector<Work> work_;
  std::vector<double> handles_;  // scratch of check()
  std::vector<std::int32_t> text_;  // what was read of one sequence
  std::vector<Finding> findings_;
  u32 num_findings_ = 0;
  u32 num_tokens_ = 0;
  u32 num_drafts_ = 0;
  u64 step_ = 0;
  std::string poisoned_;
};

}  // namespace blockstep
