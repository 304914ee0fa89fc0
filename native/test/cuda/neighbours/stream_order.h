// Work that a GPU still does after the host knows its completion, or does early.
#pragma once

#include "../../gpu_shim/runtime/stream.h"
#include "living.h"

namespace blockstep::test {

/// Words of a completion come in any order. Memory is not reused while a word to it is outstanding.
static void test_words_on_their_way() {
  auto core = open_core(0);
  apply_log(*core, 1);
  auto& half = const_cast<std::atomic<u64>&>(core->completion(0).half[1]);
  const u64 word = half.exchange(0);
  std::atomic<bool> came{false};
  std::thread bus([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    came = true;
    half.store(word);
  });
  core.reset();
  EXPECT(came, "the memory of a word that was on its way was given back");
  bus.join();
}

/// The executor's stream is busy when a core fills its tables, so their memory is not freed before.
static void test_padding_on_its_way() {
  cudaStream_t stream;
  gpu_code::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create");
  auto core = open_core(0, reinterpret_cast<std::uintptr_t>(stream));
  std::atomic<bool> done{false};
  const auto forward_pass = [](void* flag) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    *static_cast<std::atomic<bool>*>(flag) = true;
  };
  gpu_code::require(cudaLaunchHostFunc(stream, forward_pass, &done), "a forward pass");
  core->make_tables(tables_of(4), 16, 1);
  // The padding runs without its stream, too.
  gpu_code::require(cudaStreamDestroy(stream), "destroy");
  core.reset();
  EXPECT(done, "the memory of tables was freed before they were filled");
}

/// The first of two launches was made, the second failed. The memory of the first is not freed.
static void test_half_of_the_launches() {
  cudaStream_t stream;
  gpu_code::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create");
  const std::pair<const char*, std::function<void(Device&, DeviceTables&)>> calls[] = {
      {"gather", [](Device&, DeviceTables& tables) { tables.gather_slot(GatherHead{1, 1, 40000, 0, 0, 0, 1}, 0, 40003); }},
      {"digest", [](Device& core, DeviceTables&) { core.start_digest(1); }},
  };
  for (const auto& [name, call] : calls) {
    auto core = open_core(0, reinterpret_cast<std::uintptr_t>(stream));
    DeviceTables& tables = core->make_tables(tables_of(40000), 16, 1);
    gpu_code::require(cudaStreamSynchronize(stream), "the padding");
    const u64 before = gpu_code::abandoned_bytes();
    plant("hold,fail=4");  // each launch asks first whether the stream is being captured
    EXPECT(has(message_of([&] { call(*core, tables); }), "launch of"), "%s: both launches were made", name);
    core.reset();
    EXPECT(gpu_code::abandoned_bytes() > before, "%s: the memory of a launch was freed", name);
    plant("");
    gpu_code::require(cudaStreamSynchronize(stream), "the first launch");
  }
}

/// A gather that begins early waits only for the previous kernel. In a foreign stream that kernel
/// must be a log of blockstep.
static void test_early_gathers() {
  cudaStream_t stream;
  gpu_code::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create");
  for (const bool is_own : {false, true}) {
    const auto core = is_own ? open_core(0) : open_core(0, reinterpret_cast<std::uintptr_t>(stream));
    DeviceTables& tables = core->make_tables(tables_of(4), 16, 1);
    GatherHead head{};
    const auto begins_early = [&] {
      const unsigned before = gpu_shim::launches_that_begin_early();
      head.number += 1;
      head.segments = 1;
      tables.gather_value(head, Carrier::kSmall, nullptr, 0);
      while (tables.completion().word.load(std::memory_order_acquire) >> 32 != head.number) core->check();
      return gpu_shim::launches_that_begin_early() != before;
    };
    EXPECT(begins_early() == is_own, "behind whatever is there, own stream %d", is_own);
    apply_log(*core, 1);
    EXPECT(begins_early(), "behind a log, own stream %d", is_own);
    EXPECT(begins_early() == is_own, "behind a gather, and what was queued since, own stream %d", is_own);
  }
}

}  // namespace blockstep::test
