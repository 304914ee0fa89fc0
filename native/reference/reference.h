// ReferenceModel: an executor without a model, which writes and reads the given KV memory.
//
// A step writes one KvEntry for every token that it computes, at the slot in the slot mapping.
// After all entries of the step are written, it reads every sequence back through its block table.
// It computes the sampled tokens from the tokens that it read. The model also keeps an unpaged copy
// of every request, and reports every difference from it.
//
// Sharing: any request may have written a block that another request got from the prefix cache.
// Every entry must have the correct token, position and prefix. A request must itself have written
// all entries behind its cached prefix, into blocks that it took and that no request took since.
// The plans determine which request took a block: a running entry took its new blocks, an admitted
// entry the blocks behind its cached prefix. adopt() names the blocks that lanes have loaded. These
// are part of a cached prefix, and are judged by their content.
//
// With KV cache groups all of this is done in each group, by its own tables. A token of a group
// with a window or chunks reads only entries inside it. In a group of states the model reads the
// state of the last step, before the step writes any state. It writes the new state after the step.
// If any group reads a wrong entry, the sampled tokens are wrong.
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
  /// A model over `memory`: num_blocks blocks of block_size entries, never written. @throws Error
  /// kNoMemory
  ReferenceModel(const ReferenceConfig& config, std::unique_ptr<EntryMemory> memory);
  /// A model over host memory. @throws Error kNoMemory
  explicit ReferenceModel(const ReferenceConfig& config);
  ReferenceModel(const ReferenceModel&) = delete;
  ReferenceModel& operator=(const ReferenceModel&) = delete;

  /// Computes one step: reads the plan from `io` and the tables, and writes the answer to `io`.
  /// `known` has the known tokens of the admitted entries, one entry after the other. The blocks in
  /// `zeroed` are wiped first. Steps must run in the order of their plans. A step out of order
  /// leads to findings.
  /// @throws Error kBadArg for an inconsistent plan, and nothing is changed; kNoMemory, and from
  /// then on every call throws kInvariant
  void step(const StepIo& io, const Tables& tables, Span<const std::int32_t> known,
            Span<const std::int32_t> zeroed = {nullptr, 0});

  // A step in parts, for memory that writes and reads asynchronously. check(), zero() and put()
  // come first. judge() follows after all entries are written and can be read. finish() follows
  // after the entries that judge() placed are written. All parts of a step get the same arguments.

  /// Checks that the plan is consistent in itself. Neither reads nor changes sequences or memory.
  /// @throws Error kBadArg
  void check(const StepIo& io, Span<const std::int32_t> known);
  /// Wipes blocks. Call it after check() and before put(). @throws Error kBadArg, and nothing is
  /// changed; like step()
  void zero(Span<const std::int32_t> blocks);
  /// Determines the positions to compute, saves the states that these need, and places the entries
  /// of all computed tokens in the memory.
  /// @throws like step()
  void put(const StepIo& io, const Tables& tables, Span<const std::int32_t> known);
  /// Reads every sequence back, and writes the answer to `io`. Places the states that depend on the
  /// accepted drafts of the step. @throws like step()
  void judge(const StepIo& io, const Tables& tables);
  /// Ends the step: writes the findings to `io`. An entry whose state went astray since judge()
  /// fails. @throws like step()
  void finish(const StepIo& io);

  /// Notes that request `handle` took these blocks and that lanes have filled them: the request
  /// loaded their current entries. A block that no lane filled since it was last taken is wiped.
  /// @throws Error kBadArg, kInvariant; and nothing is changed
  void adopt(u64 handle, Span<const std::int32_t> blocks);

  const ReferenceConfig& config() const { return config_; }
  /// The KV memory, in blocks of block_size entries.
  const std::shared_ptr<BlockArena>& blocks() const { return memory_->blocks(); }
  /// Bytes of the KV memory and of the record of each block's owner, without the unpaged copies,
  /// which take 12 bytes per known token.
  u64 arena_bytes() const { return blocks()->bytes() + possessions_.bytes(); }
  /// Number of requests with an unpaged copy.
  u32 num_sequences() const { return static_cast<u32>(sequences_.size()); }

 private:
  /// The work of this step for one entry.
  struct Work {
    Sequence* sequence;
    u32 entry;
    u32 query;   // index of its first token in the step
    u32 first;   // position of the first computed token
    u32 end;     // position behind the last computed token, including drafts
    u32 shift;   // number of positions that the plan is ahead, because drafts were rejected since
    u32 planned_end;  // position behind the last token according to the plan
    u32 known;   // number of known tokens, without the drafts of this step
    u32 saved;       // number, within the step, of the first state that was saved for the entry
    u32 trespassed;  // the last foreign block that the entry wrote into; each is reported once
    std::int32_t bent;  // stands for the last token after a wrong state; -1: none
    bool skip;       // the entry cannot be computed
    bool faulty;     // the entry has a finding
  };

  // plan.cc: determines the work, and checks that tables and plan agree.
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
  /// The slot of a position according to the row. -1: the place is empty, which is correct only in
  /// a group of states.
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
  std::vector<u64> by_slot_;  // handle of the request last admitted in each slot; 0: none
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
