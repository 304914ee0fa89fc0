// The measured steps, as logs over a pool in which every block has a key, so that each taken block
// evicts a key. This is the state of an engine that has run for a while.
#pragma once

#include "../../support/support.h"

namespace blockstep::bench {

/// Number of tokens of a block.
constexpr u32 kBlockSize = 16;
/// 256 running requests, initially of 128 blocks (2,048 tokens). One in 16 fills a block in each
/// step.
constexpr u32 kRunning = 256;
constexpr u32 kTaking = 16;
constexpr u32 kStartBlocks = 128;
constexpr u32 kMostBlocks = 192;
/// Number of additional requests that come or end.
constexpr u32 kOthers = 4;
constexpr u32 kOtherBlocks = 40;
/// Blocks of a request of 126,000 tokens.
constexpr u32 kLongBlocks = 7875;
constexpr u32 kFirstOther = kRunning;
constexpr u32 kLongRow = kRunning + kOthers;
constexpr u32 kRows = kLongRow + 1;

constexpr Config kPool{kRunning * kMostBlocks + kOthers * kOtherBlocks + kLongBlocks + 4096, kRows, kLongBlocks, 0};

class Steps {
 public:
  /// The running requests have their maximum of blocks: call restart().
  bool full() const { return turn_ == (kMostBlocks - kStartBlocks) * kRunning / kTaking; }

  /// All running requests end, if there are any, and others come.
  test::Log restart() {
    test::Log log;
    if (started_) release(log, 0, kRunning);
    started_ = true;
    turn_ = 0;
    for (u32 row = 0; row < kRunning; ++row) admit(log, row, kStartBlocks);
    return log;
  }

  /// A decode of all running requests: 16 of them take a block and publish one.
  void decode(test::Log& log) {
    std::vector<u32> pairs;
    std::vector<u32> entries;
    for (u32 i = 0; i < kTaking; ++i) {
      const u32 row = (turn_ % (kRunning / kTaking)) * kTaking + i;
      pairs.insert(pairs.end(), {row, 1});
      publish(entries, row, kStartBlocks + turn_ / (kRunning / kTaking));
    }
    log.add(Op::kExtend, kTaking, pairs);
    log.add(Op::kPublish, kTaking, entries);
    turn_ += 1;
  }

  void admit_others(test::Log& log) {
    for (u32 i = 0; i < kOthers; ++i) admit(log, kFirstOther + i, kOtherBlocks);
  }
  void finish_others(test::Log& log) { release(log, kFirstOther, kOthers); }

  void admit_long(test::Log& log) { admit(log, kLongRow, kLongBlocks); }
  void finish_long(test::Log& log) { release(log, kLongRow, 1); }

 private:
  void admit(test::Log& log, u32 row, u32 blocks) {
    std::vector<u32> entries;
    for (u32 index = 0; index < blocks; ++index) publish(entries, row, index);
    log.add(Op::kOpen, 0, {row});
    log.add(Op::kExtend, 1, {row, blocks});
    log.add(Op::kPublish, blocks, entries);
  }

  static void release(test::Log& log, u32 first, u32 count) {
    std::vector<u32> rows;
    for (u32 i = 0; i < count; ++i) rows.push_back(first + i);
    log.add(Op::kRelease, count, rows);
  }

  void publish(std::vector<u32>& entries, u32 row, u32 index) {
    entries.insert(entries.end(), {row, index, 0, 0, 0, 0});
    put_key(&entries[entries.size() - 4], {random_.next(), random_.next()});
  }

  test::Random random_{1};
  u32 turn_ = 0;
  bool started_ = false;
};

}  // namespace blockstep::bench
