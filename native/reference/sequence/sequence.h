// The unpaged copy of one request: what its KV memory must hold, whatever blocks that lies in.
#pragma once

#include <algorithm>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep {

struct Sequence {
  u64 handle = 0;
  u32 num_prompt = 0;
  /// Known tokens; while a step is being computed, the drafts that it verifies behind them.
  std::vector<std::int32_t> tokens;
  /// hashes[p + 1] is that of the tokens up to position p; hashes[0] that of adapter and salt.
  std::vector<u64> hashes;
  /// Positions whose entries are written and good.
  u32 computed = 0;
  /// Positions below this came from the prefix cache: others may have written them.
  u32 adopted = 0;
  /// The row as it was last seen.
  std::vector<std::int32_t> blocks;
  /// Drafts that this executor made for the next step.
  std::vector<std::int32_t> drafts;
  /// Drafts rejected by the last two steps that computed it, the latest first: a plan that was made before those results
  /// were known counts them as computed.
  u32 rejected[2] = {0, 0};
  /// True from an admission to the next sample. The scheduler may not know yet what the request sampled before the
  /// admission. If those tokens still count, they stand behind the tokens that the scheduler knew, and so many drafts
  /// of the last step were rejected.
  bool unsure = false;
  u32 rejected_before = 0;
  /// Something was found wrong: the copy means nothing until the request is admitted again.
  bool lost = false;

  u64 hash_of(u32 position) const { return hashes[position + 1]; }

  void append(std::int32_t token) {
    hashes.push_back(mix(hashes.back(), static_cast<u32>(token)));
    tokens.push_back(token);
  }

  void truncate(u32 count) {
    tokens.resize(count);
    hashes.resize(u64{count} + 1);
  }

  /// Starts a residency of the request from the tokens that the scheduler knows. Nothing is computed yet.
  void admit(u64 root, u32 prompt, const std::int32_t* known, u32 count) {
    const bool goes_on = !lost && count < tokens.size() && std::equal(known, known + count, tokens.begin());
    const std::vector<std::int32_t> sampled(goes_on ? tokens.begin() + count : tokens.end(), tokens.end());
    num_prompt = prompt;
    hashes.assign(1, root);
    tokens.clear();
    for (u32 i = 0; i < count; ++i) append(known[i]);
    for (const std::int32_t token : sampled) append(token);
    computed = adopted = 0;
    blocks.clear();
    drafts.clear();
    unsure = true;
    rejected_before = rejected[0];
    rejected[0] = rejected[1] = 0;
    lost = false;
  }
};

}  // namespace blockstep
