#include "fact_log.h"

#include <algorithm>
#include <string>

namespace blockstep {
namespace {

std::vector<u32> block_sizes(const HostConfig& config) {
  std::vector<u32> sizes;
  for (const GroupConfig& group : config.groups) sizes.push_back(group.block_size);
  if (sizes.empty()) sizes.push_back(config.block_size);
  return sizes;
}

}  // namespace

FactLog::FactLog(const HostConfig& config, const Exchange& exchange, Condition& condition, Mirrored& mirrored)
    : exchange_(exchange),
      condition_(condition),
      mirrored_(mirrored),
      state_memory_(config.pool),
      state_(state_memory_.state),
      ids_memory_(u64{config.pool.num_blocks} * sizeof(u32)),
      events_(config.kv_events, config.kv_events_by_block, config.pool.num_blocks, block_sizes(config)) {}

void FactLog::begin() {
  log_.clear();
  claimed_.clear();
  if (events_.on()) [[unlikely]] events_.begin();
}

/// Notes that the current log publishes a shared block. Returns false if it already publishes the
/// block.
bool FactLog::claim(u32 id) {
  if (std::find(claimed_.begin(), claimed_.end(), id) != claimed_.end()) return false;
  claimed_.push_back(id);
  return true;
}

void FactLog::commit() {
  if (log_.empty()) return;
  if (log_.moves_refs()) ref_changes_ += 1;
  const Results results = apply_log(log_.words(), log_.size());
  if (results.fault != kNoFault) {
    condition_.poison(std::string("the block manager refused a command: ") + describe(results.fault));
  }
  if (mirrored_.mirror()) [[unlikely]] {
    mirrored_.append(log_.words(), log_.size(), results.num_ids, state_.rolling_digest);
  }
  begin();
}

/// Keeps the log if recording is on, and applies it.
Results FactLog::apply_log(const u32* log, u32 words) {
  if (recording_ && words != 0) {
    try {
      recorded_.push_back(words);
      recorded_.insert(recorded_.end(), log, log + words);
    } catch (const std::bad_alloc&) {
      condition_.poison("out of memory while recording the log");
    }
  }
  Results results{static_cast<u32*>(ids_memory_.base()), state_.config.num_blocks, 0, 0, 0};
  if (events_.on()) [[unlikely]] {
    apply_and_tell(log, words, results);
  } else {
    SoloTeam solo;
    apply(solo, state_, log, words, results);
  }
  return results;
}

void FactLog::apply_and_tell(const u32* log, u32 words, Results& results) {
  try {
    events_.apply(state_, log, words, results);
  } catch (const std::bad_alloc&) {
    condition_.poison("out of memory while telling KV cache events");
  } catch (const Error& error) {
    condition_.poison("KV cache events: " + error.message);
  }
}

void FactLog::publish_counts() {
  exchange_.control(kFreeBlocks) = static_cast<std::int32_t>(state_.num_free);
  exchange_.control(kPublishedBlocks) = static_cast<std::int32_t>(state_.num_published);
  exchange_.control(kRowsInUse) = static_cast<std::int32_t>(state_.rows_in_use);
  exchange_.control(kEvictionsLow) = static_cast<std::int32_t>(state_.evictions);
  exchange_.control(kKvEventWords) = static_cast<std::int32_t>(std::min<std::size_t>(events_.waiting().size(), 0x7fffffff));
  exchange_.control(kEvictionsHigh) = static_cast<std::int32_t>(state_.evictions >> 32);
}

}  // namespace blockstep
