// CopyPlan: which blocks one job of a lane copies where, in which pieces.
#pragma once

#include <memory>
#include <vector>

#include "../block_arena.h"

namespace blockstep {

/// Block ids in an array that somebody else owns.
struct BlockList {
  const std::int32_t* ids;
  u32 count;
};

/// A run: `count` blocks that are consecutive in source and in target, and are copied as one. Both ends are block ids.
struct Run {
  u32 source;
  u32 target;
  u32 count;
};

/// The runs of a job, grouped into pieces of whole blocks. No run crosses the end of a piece. A job without blocks is
/// one piece without runs, so that the job has its place in the order of the lane. A plan keeps its memory for the next
/// job.
struct CopyPlan {
  std::vector<Run> runs;
  std::vector<u32> piece_ends;  // index behind the last run of each piece

  u32 num_pieces() const { return static_cast<u32>(piece_ends.size()); }
  /// Piece `piece` consists of runs[first_run(piece)] up to, and without, runs[end_run(piece)].
  u32 first_run(u32 piece) const { return piece == 0 ? 0 : piece_ends[piece - 1]; }
  u32 end_run(u32 piece) const { return piece_ends[piece]; }
  /// Plans copies from sources.ids[i] to targets.ids[i]. BlockPairs::check() has passed the lists.
  /// @throws std::bad_alloc
  void make(BlockList sources, BlockList targets, u32 blocks_per_piece);
};

/// The two arenas of a lane. Checks the blocks that jobs name in them.
class BlockPairs {
 public:
  /// @throws Error kBadArg for one arena twice or blocks of two sizes, std::bad_alloc
  BlockPairs(std::shared_ptr<BlockArena> source, std::shared_ptr<BlockArena> target);

  BlockArena& source() const { return *source_; }
  BlockArena& target() const { return *target_; }
  u64 bytes_per_block() const { return source_->bytes_per_block(); }
  /// How many blocks a piece of about `piece_bytes` bytes has: at least one.
  u32 blocks_in(u64 piece_bytes) const;
  /// @throws Error kBadArg for lists of two lengths, a block outside of its arena, or a target block named twice
  void check(BlockList sources, BlockList targets);

 private:
  std::shared_ptr<BlockArena> source_;
  std::shared_ptr<BlockArena> target_;
  std::vector<u32> marks_;  // by target block: the number of the last check() that met it
  u32 mark_ = 0;
};

}  // namespace blockstep
