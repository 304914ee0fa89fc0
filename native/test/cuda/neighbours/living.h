// Helpers of the tests of neighbours: a core, a lane and arenas on a GPU, and the error of a
// failing call.
#pragma once

#include <thread>

#include "../../../cuda/device/cuda_device.h"
#include "../../../cuda/device/probe.h"
#include "../cuda_lane_bench.h"

namespace blockstep::test {

using gpu_code::OnDevice;

constexpr Config kPool{64, 8, 16, 0};

/// Tables for 4 entries of kPool.
inline TablesShape tables_of(u32 max_tokens) {
  TablesShape shape{};
  shape.max_tokens = max_tokens;
  shape.max_entries = 4;
  shape.max_blocks_per_row = kPool.max_blocks_per_row;
  return shape;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Call>
inline std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.code) + ": " + error.message;
  }
  return "none";
}

inline bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

inline std::unique_ptr<Device> open_core(u32 device, std::optional<u64> stream = {}) {
  gpu_code::Options options;
  options.device = device;
  options.stream = stream;
  return gpu_code::open(kPool, options);
}

/// Applies a log that opens a row and takes blocks for it, and waits for its completion.
inline void apply_log(Device& device, u32 number) {
  Log log;
  log.add(Op::kOpen, 0, {number});
  log.add(Op::kExtend, 1, {number, 3});
  device.apply_value({number, 0}, Carrier::kSmall, log.words.data(), log.size());
  const auto start = std::chrono::steady_clock::now();
  while (device.completion(0).word.load(std::memory_order_acquire) >> 32 != number) {
    device.check();
    EXPECT(seconds_since(start) < 10, "log %u was not applied", number);
  }
  EXPECT(static_cast<u32>(device.completion(0).word) == kNoFault, "log %u: fault", number);
}

/// A core, arenas and a lane on a GPU, used and destroyed. Blocks of an arena are read and written
/// after all work of the GPU, which is impossible during a capture.
inline void live_on(u32 device, bool beside_capture = false) {
  const auto core = open_core(device);
  apply_log(*core, 1);
  core->start_digest(1);
  const u64 bytes = 8 * kBytes;
  const auto source = std::make_shared<BlockArena>(8, kBytes, gpu_code::allocate_blocks(Place::kPinned, device, bytes));
  const auto target = std::make_shared<BlockArena>(8, kBytes, gpu_code::allocate_blocks(Place::kDevice, device, bytes));
  for (const CopyMode mode : {CopyMode::kKernel, CopyMode::kBatch}) {
    for (const CompletionMode completion : {CompletionMode::kWriteValue, CompletionMode::kEvent}) {
      const auto ring = std::make_shared<CompletionRing>(4);
      const auto lane = gpu_code::open_lane(ring, source, target, options_of(mode, completion));
      const std::int32_t blocks[] = {1, 3};
      lane->submit({blocks, 2}, {blocks, 2}, Lane::kNoFence);
      lane->fence();
      std::int32_t pair[2] = {};
      EXPECT(ring->drain(pair, 1).pairs == 1 && pair[1] == static_cast<std::int32_t>(Verdict::kOk), "verdict %d", pair[1]);
    }
  }
  if (beside_capture) return;
  std::vector<u8> block(kBytes, 9);
  target->write_block(2, block.data());
  target->read_block(2, block.data());
  EXPECT(block[kBytes - 1] == 9, "a block");
}

}  // namespace blockstep::test
