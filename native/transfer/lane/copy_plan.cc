#include "copy_plan.h"

#include <algorithm>

namespace blockstep {
namespace {

void refuse_block(const char* name, u32 index, std::int32_t got, u32 num_blocks) {
  throw Error{kBadArg, std::string(name) + "[" + std::to_string(index) + "] must be an integer from 0 to " +
                           std::to_string(num_blocks - 1) + ", got " + std::to_string(got)};
}

}  // namespace

BlockPairs::BlockPairs(std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target)
    : source_(std::move(source)), target_(std::move(target)), marks_(target_->num_blocks()) {
  if (source_ == target_) throw Error{kBadArg, "target must be another arena than source, got the same"};
  if (source_->bytes_per_block() != target_->bytes_per_block()) {
    throw Error{kBadArg, "target must have blocks of " + std::to_string(source_->bytes_per_block()) +
                             " bytes as source has, got " + std::to_string(target_->bytes_per_block())};
  }
}

u32 BlockPairs::blocks_in(u64 piece_bytes) const {
  return static_cast<u32>(std::clamp<u64>(piece_bytes / bytes_per_block(), 1, source_->num_blocks()));
}

void BlockPairs::check(BlockList sources, BlockList targets) {
  if (sources.count != targets.count) {
    throw Error{kBadArg, "targets must name as many blocks as sources, " + std::to_string(sources.count) + ", got " +
                             std::to_string(targets.count)};
  }
  if (++mark_ == 0) {
    std::fill(marks_.begin(), marks_.end(), 0u);
    mark_ = 1;
  }
  for (u32 i = 0; i < sources.count; ++i) {
    const auto from = static_cast<u32>(sources.ids[i]);
    const auto to = static_cast<u32>(targets.ids[i]);
    if (from >= source_->num_blocks()) refuse_block("sources", i, sources.ids[i], source_->num_blocks());
    if (to >= target_->num_blocks()) refuse_block("targets", i, targets.ids[i], target_->num_blocks());
    if (marks_[to] == mark_) throw Error{kBadArg, "targets must name a block once, got " + std::to_string(to) + " twice"};
    marks_[to] = mark_;
  }
}

void CopyPlan::make(BlockList sources, BlockList targets, u32 blocks_per_piece) {
  runs.clear();
  piece_ends.clear();
  u32 room = blocks_per_piece;
  for (u32 i = 0; i < sources.count; ++i) {
    const auto from = static_cast<u32>(sources.ids[i]);
    const auto to = static_cast<u32>(targets.ids[i]);
    if (room == 0) {
      piece_ends.push_back(static_cast<u32>(runs.size()));
      room = blocks_per_piece;
    }
    --room;
    const bool first = room + 1 == blocks_per_piece;
    if (!first && from == runs.back().source + runs.back().count && to == runs.back().target + runs.back().count) {
      ++runs.back().count;
    } else {
      runs.push_back({from, to, 1});
    }
  }
  piece_ends.push_back(static_cast<u32>(runs.size()));
}

}  // namespace blockstep
