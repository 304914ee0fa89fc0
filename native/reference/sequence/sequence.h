// Sequence: the unpaged copy of one request. It defines the correct content of the request's KV
// memory, in any blocks.
#pragma once

#include <algorithm>
#include <vector>

#include "../../core/base/types.h"

namespace blockstep {

struct Sequence {
  u64 handle = 0;
  u32 num_prompt = 0;
  /// The known tokens. While a step is being computed, the drafts that the step verifies follow
  /// them.
  std::vector<std::int32_t> tokens;
  /// hashes[p + 1] is the hash of the tokens up to and including position p; hashes[0] is the key
  /// of adapter and salt.
  std::vector<u64> hashes;
  /// Number of positions, from 0, whose entries are written and correct.
  u32 computed = 0;
  /// Positions below this number came from the prefix cache: other requests may have written their
  /// entries.
  u32 adopted = 0;
  /// The row of each KV cache group when the last step read it. Initially empty, and always empty
  /// in groups of states.
  std::vector<std::vector<std::int32_t>> blocks;
  /// Drafts that this executor made for the next step.
  std::vector<std::int32_t> drafts;
  /// Drafts rejected by the last two steps that computed it, latest step first. A plan that was
  /// made before those results were known counts them as computed.
  u32 rejected[2] = {0, 0};
  /// True from an admission to the next sample. The scheduler may not know yet which tokens the
  /// request sampled before the admission. If those tokens are still valid, they follow the
  /// scheduler's known tokens in `tokens`. `rejected_before` is the number of drafts that the last
  /// step before the admission rejected.
  bool unsure = false;
  u32 rejected_before = 0;
  /// An error was found: the copy is not valid until the request is admitted again.
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

  /// Starts a residency of the request, with no computed position. `root` is the key of adapter and
  /// salt, `prompt` the number of prompt tokens, `known` the `count` tokens that the scheduler
  /// knows.
  void admit(u64 root, u32 prompt, const std::int32_t* known, u32 count) {
    const bool goes_on = !lost && count < tokens.size() && std::equal(known, known + count, tokens.begin());
    const std::vector<std::int32_t> sampled(goes_on ? tokens.begin() + count : tokens.end(), tokens.end());
    num_prompt = prompt;
    hashes.assign(1, root);
    tokens.clear();
    for (u32 i = 0; i < count; ++i) append(known[i]);
    for (const std::int32_t token : sampled) append(token);
    computed = adopted = 0;
    for (std::vector<std::int32_t>& row : blocks) row.clear();
    drafts.clear();
    unsure = true;
    rejected_before = rejected[0];
    rejected[0] = rejected[1] = 0;
    lost = false;
  }
};

}  // namespace blockstep
