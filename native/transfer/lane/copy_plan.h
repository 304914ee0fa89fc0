// CopyPlan: the block copies of one job of a lane, divided into pieces.
#pragma once

#include <memory>
#include <vector>

#include "../block_arena.h"

namespace blockstep {

/// Block ids in an array that another object owns.
struct BlockList {
  const std::int32_t* ids;
  u32 count;
};

/// A run: `count` blocks that are consecutive in source and target, and are copied together. Both
/// ends are block ids.
struct Run {
  u32 source;
  u32 target;
  u32 count;
};

/// The runs of a job, grouped into pieces of whole blocks. No run crosses the end of a piece. A job
/// without blocks is one piece without runs, so that the job has its place in the order of the
/// lane. A plan keeps its memory for the next job.
struct CopyPlan {
  std::vector<Run> runs;
  std::vector<u32> piece_ends;  // index behind the last run of each piece

  u32 num_pieces() const { return static_cast<u32>(piece_ends.size()); }
  /// Piece `piece` consists of runs[first_run(piece)] up to, but excluding, runs[end_run(piece)].
  u32 first_run(u32 piece) const { return piece == 0 ? 0 : piece_ends[piece - 1]; }
  u32 end_run(u32 piece) const { return piece_ends[piece]; }
  /// Plans copies from sources.ids[i] to targets.ids[i]. The lists must have passed
  /// BlockPairs::check().
  /// @throws std::bad_alloc
  void make(BlockList sources, BlockList targets, u32 blocks_per_piece);
};

/// The two arenas of a lane. Checks the blocks that jobs name in them.
class BlockPairs {
 public:
  /// @throws Error kBadArg if the arenas are the same or have different block sizes, std::bad_alloc
  BlockPairs(std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target);

  BlockArena& source() const { return *source_; }
  BlockArena& target() const { return *target_; }
  u64 bytes_per_block() const { return source_->bytes_per_block(); }
  /// Number of blocks in a piece of about `piece_bytes` bytes: at least one.
  u32 blocks_in(u64 piece_bytes) const;
  /// @throws Error kBadArg if the lists differ in length, a block is outside of its arena, or a
  /// target block repeats
  void check(BlockList sources, BlockList targets);

 private:
  std::shared_ptr<BlockArena> source_;
  std::shared_ptr<BlockArena> target_;
  std::vector<u32> marks_;  // by target block: the number of the last check() that named it
  u32 mark_ = 0;
};

}  // namespace blockstep
