// ReferenceModel: an executor without a model, which writes and reads the KV memory that it is given.
//
// A step writes one KvEntry for every token that it computes, at the slot that the slot mapping names. When all entries
// of the step are written, it reads every sequence back through its block table, and computes the sampled tokens from
// the tokens that it read. The model also keeps an unpaged copy of every request, and reports every difference from it.
//
// What may be shared: any request may have written a block that another request got from the prefix cache, as long as
// every entry is of the same token, position and prefix. Everything behind the cached prefix the request must have
// written itself, into blocks that it took itself and that nobody took since. The plans say who took a block when: a
// running entry took its new blocks, an admitted entry the blocks behind its cached prefix. adopt() says which blocks
// lanes have loaded: those are part of a cached prefix, and are judged by what they hold.
//
// With KV cache groups all of this is done in each group, by its own tables. A token of a group with a window or chunks reads
// only what is in it. In a group of states the model reads the state that the last step left, before the step writes
// any, and writes the state after the step. Whatever group has read something wrong, the sampled tokens are wrong.
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
  /// A model over `memory`: num_blocks blocks of block_size entries, never written. @throws Error kNoMemory
  ReferenceModel(const ReferenceConfig& config, std::unique_ptr<EntryMemory> memory);
  /// A model over memory of the host. @throws Error kNoMemory
  explicit ReferenceModel(const ReferenceConfig& config);
  ReferenceModel(const ReferenceModel&) = delete;
  ReferenceModel& operator=(const ReferenceModel&) = delete;

  /// Computes one step: reads the plan from `io` and the tables, and writes the answer to `io`. `known` has the known
  /// tokens of the admitted entries, one entry after the other; the blocks in `zeroed` are wiped first. Steps must run in the order of their plans; a step out
  /// of order leads to findings.
  /// @throws Error kBadArg for a plan that makes no sense, and nothing is changed; kNoMemory, and from then on every
  /// call throws kInvariant
  void step(const StepIo& io, const Tables& tables, Span<const std::int32_t> known,
            Span<const std::int32_t> zeroed = {nullptr, 0});

  // A step in parts, for memory that writes and reads asynchronously: check(), zero(), then put(), then judge() when all
  // entries are written and can be read, then finish() when what judge() has placed is written. All parts of a step get the
  // same arguments.

  /// Checks that the plan makes sense by itself. Neither reads nor changes sequences or memory. @throws Error kBadArg
  void check(const StepIo& io, Span<const std::int32_t> known);
  /// Wipes blocks. Call it behind check() and in front of put(). @throws Error kBadArg, and nothing is changed; as step()
  void zero(Span<const std::int32_t> blocks);
  /// Works out what to compute, saves the states that it needs, and places the entries of all computed tokens in the memory.
  /// @throws as step()
  void put(const StepIo& io, const Tables& tables, Span<const std::int32_t> known);
  /// Reads every sequence back, and writes the answer to `io`. Places the states that depend on which drafts of the step were
  /// accepted. @throws as step()
  void judge(const StepIo& io, const Tables& tables);
  /// Ends the step: writes to `io` what was found. An entry whose state went astray since judge() fails. @throws as step()
  void finish(const StepIo& io);

  /// Says that request `handle` took these blocks and that lanes have filled them: the request loaded the entries that
  /// the blocks hold now. A block that no lane filled since it was taken last is wiped.
  /// @throws Error kBadArg, kInvariant; and nothing is changed
  void adopt(u64 handle, Span<const std::int32_t> blocks);

  const ReferenceConfig& config() const { return config_; }
  /// The KV memory, in blocks of block_size entries.
  const std::shared_ptr<BlockArena>& blocks() const { return memory_->blocks(); }
  /// Bytes of the KV memory and of the record of who has which block. The unpaged copies, 12 bytes per known token, are
  /// not counted.
  u64 arena_bytes() const { return blocks()->bytes() + possessions_.bytes(); }
  /// Requests of which an unpaged copy is kept.
  u32 num_sequences() const { return static_cast<u32>(sequences_.size()); }

 private:
  /// What this step does with one entry.
  struct Work {
    Sequence* sequence;
    u32 entry;
    u32 query;   // index of its first token in the step
    u32 first;   // position of the first token that is computed
    u32 end;     // position behind the last token that is computed, drafts included
    u32 shift;   // how many positions the plan is ahead, because drafts were rejected since it was made
    u32 planned_end;  // position behind the last token by the plan
    u32 known;   // known tokens, without the drafts of this step
    u32 saved;       // the first state that was saved for the entry, counted in the step
    u32 trespassed;  // the last block of another request that the entry wrote into: each is reported once
    std::int32_t bent;  // what stands for the last token because a state that was read is wrong; -1: none is
    bool skip;       // the entry cannot be computed
    bool faulty;     // something was reported for the entry
  };

  // plan.cc: works out what to do, and checks that tables and plan agree.
  void begin(const StepIo& io, const Tables& tables, Span<const std::int32_t> known);
  Sequence* admit(const StepIo& io, u32 entry, const std::int32_t* known);
  void take_blocks(const StepIo& io, const Tables& tables, Work& work, u32 group);
  void plan_entry(const StepIo& io, const Tables& tables, Work& work);
  void check_told(const StepIo& io, Work& work);
  void take_inputs(const Tables& tables, Work& work, u32 count);
  void settle(const StepIo& io, const Tables& tables, Work& work, u32 num_drafts);
  void take_drafts(const StepIo& io, Work& work);
  void retire(u64 handle);
  void forget_retired();

  // memory_use.cc: writes and reads the memory.
  void write(const Tables& tables, Work& work);
  void write_tokens(const Tables& tables, Work& work, u32 group);
  void write_states(const Tables& tables, Work& work, u32 group);
  void keep_states(const Tables& tables, Work& work, u32 group, u32 end);
  void check_slot(Work& work, u32 group, u32 position, std::int64_t slot, std::int64_t expected);
  void write_entry(Work& work, u32 group, u32 position, std::int64_t slot, u32 mapping);
  void report_astray();
  void save_states(const Tables& tables, Work& work);
  void read_states(const Tables& tables, Work& work);
  void read(const Tables& tables, Work& work);
  void read_group(const Tables& tables, Work& work, u32 group);
  void find_state(Work& work, u32 group, u32 block, const KvEntry* entries, u32 from, u32 to);
  bool open_block(Work& work, u32 group, std::int32_t named, u32 from, bool& good);
  bool holds(const Work& work, u32 group, u32 block, u32 position, const KvEntry& entry);
  void judge_entry(Work& work, u32 group, u32 position, u32 block, const KvEntry& entry);
  u32 first_read(const Work& work, u32 group) const;
  void report_in(Work& work, u32 group, Finding finding);

  // reference.cc: computes a step, and answers.
  void answer(const StepIo& io, const Tables& tables, Work& work);
  void draft(Sequence& sequence);
  void report(Work& work, Finding finding);
  void publish_findings(const StepIo& io) const;
  void require_sound() const {
    if (!poisoned_.empty()) throw Error{kInvariant, poisoned_};
  }
  void check_block(const char* name, u32 index, std::int32_t block) const;
  template <class Part>
  void attempt(const Part& part);

  u32 num_groups() const { return config_.tables.num_lists(); }
  bool is_block(std::int32_t named) const { return named >= 1 && static_cast<u32>(named) < config_.num_blocks; }
  bool has_states(u32 group) const { return config_.has_states(group); }
  /// Index of an entry in the columns that each group has.
  u64 at(u32 group, u32 entry) const { return u64{group} * config_.tables.max_entries + entry; }
  const std::int32_t* row(const Tables& tables, u32 group, u32 entry) const {
    return lay_out_group(config_.tables, tables, group).block_table + u64{entry} * config_.tables.blocks_per_row(group);
  }
  /// The slot of a position by the row. -1: the place holds nothing, which is right only in a group of states.
  std::int64_t slot_in(const std::int32_t* row, u32 group, u32 position) const {
    const u32 size = config_.tokens_per_block(group);
    const std::int32_t block = row[position / size];
    if (block == 0 && has_states(group)) return -1;
    return std::int64_t{block} * size + position % size;
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
  std::vector<std::int32_t> text_;  // the tokens that were read of one sequence
  std::vector<Finding> findings_;
  u32 num_findings_ = 0;
  u32 num_saved_ = 0;
  u32 num_tokens_ = 0;
  u32 num_drafts_ = 0;
  u64 step_ = 0;
  std::string poisoned_;
};

}  // namespace blockstep
