// PrefixSearch: the longest prefix of a request for which every KV cache group has cached blocks
// (vLLM HybridKVCacheCoordinator.find_longest_cache_hit).
#pragma once

#include <vector>

#include "group_rows.h"

namespace blockstep {

class PrefixSearch {
 public:
  PrefixSearch(const HostConfig& config, const FactLog& facts, RequestTable& table, const GroupRows& rows);
  PrefixSearch(const PrefixSearch&) = delete;
  PrefixSearch& operator=(const PrefixSearch&) = delete;

  /// Looks up the first `most` tokens of the slot. Returns the number of tokens of the hit. @throws
  /// std::bad_alloc
  u32 find(Slot& slot, u32 most);
  /// The most tokens that groups of one spec had in the last find(), before other groups shortened
  /// the hit.
  u32 longest() const { return longest_; }
  /// The places of a group's row in the last find(). Empty places are kNullBlock.
  const std::vector<u32>& hits(u32 g) const { return hits_[g]; }

 private:
  /// Groups of one spec.
  struct Spec {
    std::vector<u32> groups;
    bool eagle;
  };

  bool look(const Spec& spec, const Slot& slot, u32 place);
  u32 search(const Spec& spec, const Slot& slot, u32 tokens, bool eagle);
  u32 run_from(const Spec& spec, const Slot& slot, u32 from, u32 places);
  u32 search_full(const Spec& spec, const Slot& slot, u32 places, bool eagle);
  u32 search_sliding(const Spec& spec, const Slot& slot, u32 places, bool eagle);
  u32 search_chunked(const Spec& spec, const Slot& slot, u32 tokens);
  u32 search_mamba(const Spec& spec, const Slot& slot, u32 places);
  void resize(const Spec& spec, u32 places);
  bool is_aligned(const Spec& spec, u32 places) const;
  u32 size_of(const Spec& spec) const { return config_.groups[spec.groups[0]].block_size; }

  const HostConfig& config_;
  const State& state_;
  RequestTable& table_;
  const GroupRows& rows_;
  std::vector<Spec> specs_;               // specs of full attention come first
  std::vector<std::vector<u32>> hits_;    // [num_groups]
  u32 longest_ = 0;
  // The result of look(), one block for each group of the spec.
  std::vector<u32> looked_;
};

}  // namespace blockstep
