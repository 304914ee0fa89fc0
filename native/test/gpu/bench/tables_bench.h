// The tables of a step on the GPU: gathered there, or, as the alternative, copied completely from
// the host.
#pragma once

#include "../../../cuda/device/cuda_device.h"
#include "../../../host/gather/gatherer.h"
#include "../../../host/mirror/mirror.h"
#include "figures.h"
#include "kernels/matrix_product.h"
#include "steps.h"

namespace blockstep::bench {

/// Blocks of a row of the block table: 8,192 tokens.
constexpr u32 kTableBlocks = 512;

/// A number of running requests of 2,048 tokens and more. One in 16 fills a block in each step.
class TablesBench {
 public:
  /// @param joins the core is in a foreign stream, and joins a log and its gather in one launch
  TablesBench(u32 device, u32 rows, bool joins)
      : rows_(rows),
        theirs_(joins ? std::make_unique<cuda::Stream>() : nullptr),
        pool_{rows * kTableBlocks + 2, rows, kTableBlocks, 0},
        shape_{8192, rows, kTableBlocks},
        host_(pool_),
        mirror_(open(device), {kMaxLogs, slot_words(pool_), pool_.num_blocks, kMaxWaitingWords}),
        gatherer_(mirror_.device(), shape_, kBlockSize, {2}) {
    restart();
  }

  void run(Beside beside, const Effort& effort) {
    theirs_ ? run_joined(beside, effort) : run_apart(beside, effort);
  }

 private:
  void run_joined(Beside beside, const Effort& effort) {
    Samples both;
    Samples launch;
    repeat(effort, [&](bool counts) {
      if (full()) restart();
      test::Log log;
      grow(log);
      host_.apply(log);
      const auto start = Clock::now();
      mirror_.append(log.words.data(), log.size(), host_.results.num_ids, host_.state.rolling_digest);
      mirror_.submit({}, true);
      gather_step();
      const auto launched = Clock::now();
      while (gatherer_.done() != gatherer_.given()) {
      }
      const auto end = Clock::now();
      settle();
      if (!counts) return;
      both.add(end - start);
      launch.add(launched - start);
    });
    print({"log and gather in one launch, " + count(), nullptr, name_of(beside)}, both);
    print({"log and gather in one launch, " + count() + ", host side", nullptr, name_of(beside)}, launch);
  }

  void run_apart(Beside beside, const Effort& effort) {
    Samples gather;
    Samples both;
    Samples launch;
    bool alone = false;
    Effort twice = effort;
    twice.samples *= 2;
    repeat(twice, [&](bool counts) {
      if (full()) restart();
      test::Log log;
      grow(log);
      host_.apply(log);
      alone = !alone;
      auto start = Clock::now();
      give(log);
      if (alone) {
        settle();
        start = Clock::now();
      }
      gather_step();
      const auto launched = Clock::now();
      while (gatherer_.done() != gatherer_.given()) {
      }
      const auto end = Clock::now();
      settle();
      if (!counts) return;
      (alone ? gather : both).add(end - start);
      if (!alone) launch.add(launched - start);
    });
    print({"gather, " + count(), nullptr, name_of(beside)}, gather);
    print({"log and gather, " + count(), nullptr, name_of(beside)}, both);
    print({"log and gather, " + count() + ", host side", nullptr, name_of(beside)}, launch);
    run_whole(beside, effort);
  }

  /// The work of a scheduler with tables on the host: every array is copied completely to the GPU
  /// in every step.
  void run_whole(Beside beside, const Effort& effort) {
    const blockstep_tables& tables = gatherer_.tables().descriptor();
    announce("tables copied whole, " + count(), name_of(beside));
    Samples whole;
    Samples launch;
    repeat(effort, [&](bool counts) {
      const auto start = Clock::now();
      u64 at = 0;
      for (u32 i = 0; i < kNumTables; ++i) {
        const u64 length = bytes_of(array_of(tables, static_cast<Table>(i)));
        const cudaError_t error =
            cudaMemcpyAsync(whole_target_.base() + at, whole_source_.base() + at, length, cudaMemcpyHostToDevice, whole_stream_.get());
        cuda::require(error, "cudaMemcpyAsync");
        at += length;
      }
      cuda::require(cudaEventRecord(whole_end_.get(), whole_stream_.get()), "cudaEventRecord");
      const auto launched = Clock::now();
      while (cudaEventQuery(whole_end_.get()) == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError());
        if (Clock::now() - launched > kMostOfOne) throw Error{kCuda, "the copies of one step did not end within 5 s"};
      }
      if (counts) {
        whole.add(Clock::now() - start);
        launch.add(launched - start);
      }
    });
    print({"tables copied whole, " + count(), nullptr, name_of(beside)}, whole);
    print({"tables copied whole, " + count() + ", host side", nullptr, name_of(beside)}, launch);
  }

  u64 bytes_of_all() {
    const blockstep_tables& tables = gatherer_.tables().descriptor();
    u64 bytes = 0;
    for (u32 i = 0; i < kNumTables; ++i) bytes += bytes_of(array_of(tables, static_cast<Table>(i)));
    return bytes;
  }

  std::string count() const { return (rows_ == 1024 ? std::string("1,024") : std::to_string(rows_)) + " rows"; }

  std::unique_ptr<Device> open(u32 device) const {
    cuda::Options options;
    options.device = device;
    options.max_logs = kMaxLogs;
    if (theirs_) options.stream = reinterpret_cast<std::uintptr_t>(theirs_->get());
    return cuda::open(pool_, options);
  }

  /// The rows have no room for another token.
  bool full() const { return tokens_ == (kTableBlocks - 1) * kBlockSize; }

  /// New requests replace the requests of all rows.
  void restart() {
    test::Log log;
    if (tokens_ != 0) {
      std::vector<u32> all(rows_);
      for (u32 row = 0; row < rows_; ++row) all[row] = row;
      log.add(Op::kRelease, rows_, all);
    }
    for (u32 row = 0; row < rows_; ++row) {
      log.add(Op::kOpen, 0, {row});
      log.add(Op::kExtend, 1, {row, kStartBlocks});
    }
    tokens_ = (kStartBlocks - 1) * kBlockSize;
    apply(log);
    settle();
  }

  /// One decode: every request gets a token, and one in 16 takes a block for it.
  void grow(test::Log& log) {
    tokens_ += 1;
    std::vector<u32> pairs;
    for (u32 row = 0; row < rows_; ++row) {
      if ((tokens_ + row) % kBlockSize == 0) pairs.insert(pairs.end(), {row, 1});
    }
    log.add(Op::kExtend, static_cast<u32>(pairs.size() / 2), pairs);
  }

  void gather_step() {
    const std::int32_t token = 7;
    gatherer_.begin(rows_, 1);
    for (u32 row = 0; row < rows_; ++row) {
      gatherer_.add(row, tokens_ - 1, 1, host_.state.rows[row].num_blocks, &token, 1);
    }
    const auto given = [&] { return mirror_.all_given(); };
    const auto join = [&](u32 room, const Mirror::Give& give) {
      EXPECT(mirror_.join(room, give), "a log and a gather went in two launches");
      return true;
    };
    gatherer_.launch({}, given, theirs_ ? Gatherer::Join(join) : Gatherer::Join());
  }

  void give(const test::Log& log) {
    mirror_.append(log.words.data(), log.size(), host_.results.num_ids, host_.state.rolling_digest);
    mirror_.submit();
  }
  void apply(const test::Log& log) {
    host_.apply(log);
    EXPECT(host_.results.fault == kNoFault, "%s", describe(host_.results.fault));
    give(log);
  }
  void settle() {
    while (mirror_.poll(), !mirror_.idle()) {
    }
  }

  static constexpr u32 kMaxLogs = 2;
  const u32 rows_;
  const std::unique_ptr<cuda::Stream> theirs_;  // null: the core has its own
  const Config pool_;
  const TablesShape shape_;
  test::Machine host_;
  Mirror mirror_;
  Gatherer gatherer_;
  u32 tokens_ = 0;  // tokens of every request
  // For tables that are copied completely. Created here, outside of the measurement of the copies.
  const cuda::MappedMemory whole_source_{bytes_of_all()};
  const cuda::DeviceMemory whole_target_{bytes_of_all()};
  const cuda::Stream whole_stream_;
  const cuda::Event whole_end_;
};

}  // namespace blockstep::bench
