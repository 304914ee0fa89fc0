// The back end beside foreign code on the emulated GPU. Processes own a GPU exclusively, contexts
// are foreign, other threads capture, and a kernel holds the whole GPU. Copies are late, and memory
// is of an unexpected kind.
#include <condition_variable>

#include "../../gpu/bench/kernels/matrix_product.h"
#include "../../gpu_shim/runtime/context.h"
#include "held_gpu.h"
#include "stream_order.h"
#include "unhurried.h"

using namespace blockstep;
using namespace blockstep::test;

/// Another process owns GPU 0 exclusively, so no call may need a context there. This is the first
/// test, because contexts are permanent.
static void test_other_device() {
  plant("devices=2,taken=1");
  EXPECT(!gpu_code::probe(0).usable && has(gpu_code::probe(0).reason, "cuDevicePrimaryCtxRetain"), "%s",
         gpu_code::probe(0).reason.c_str());
  EXPECT(gpu_code::probe(1).usable, "%s", gpu_code::probe(1).reason.c_str());
  live_on(1);
  std::thread([] { live_on(1); }).join();
  EXPECT(gpu_shim::has_context(1) && !gpu_shim::has_context(0), "GPU 0 got a context");
  EXPECT(gpu_shim::context_on_top() == nullptr, "a context stays with the thread");
  plant("");
}

/// The thread has a foreign context on the same GPU. No call uses it, and it is restored
/// afterwards.
static void test_other_context() {
  plant("devices=2");
  CUcontext theirs = gpu_shim::foreign_context(1);
  gpu_shim::push_context(theirs);
  live_on(1);
  EXPECT(gpu_shim::context_on_top() == theirs, "another context is the current one");
  EXPECT(gpu_shim::exchange_capture_mode(cudaStreamCaptureModeGlobal) == cudaStreamCaptureModeGlobal, "our capture mode stays");
  gpu_shim::pop_context();
  plant("");
}

/// A thread captures in Global mode while this thread opens, uses and destroys every kind of
/// object.
static void test_capture_of_others() {
  std::mutex mutex;
  std::condition_variable changed;
  int stage = 0;
  const auto reach = [&](int next) {
    std::unique_lock lock(mutex);
    stage = next;
    changed.notify_all();
  };
  const auto await = [&](int wanted) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stage >= wanted; });
  };
  gpu_code::forget_usable();
  cudaError_t ended = cudaErrorUnknown;
  std::thread other([&] {
    cudaStream_t stream;
    cudaGraph_t graph;
    gpu_code::require(cudaStreamCreate(&stream), "create");
    gpu_code::require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin");
    reach(1);
    await(2);
    ended = cudaStreamEndCapture(stream, &graph);
  });
  await(1);
  live_on(0, true);
  {
    const OnDevice on(0);
    const gpu_code::MappedMemory large(17 << 20);  // more than the kept amount, so it is unpinned
  }
  reach(2);
  other.join();
  EXPECT(ended == cudaSuccess, "their capture ended with %d", ended);
}

/// A capturing stream is not ordered with our streams, and a core in such a stream refuses its
/// logs.
static void test_captured_stream() {
  cudaStream_t stream;
  cudaGraph_t graph;
  gpu_code::require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create");
  const u64 theirs = reinterpret_cast<std::uintptr_t>(stream);
  const auto core = open_core(0);
  const auto in_theirs = open_core(0, theirs);
  CudaBench bench(options_of(CopyMode::kBatch, CompletionMode::kEvent));
  EXPECT(!core->is_capturing(theirs), "not yet");
  gpu_code::require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "begin");
  EXPECT(core->is_capturing(theirs), "it is");
  const std::string refused = message_of([&] { bench.cuda().record_step(1, theirs); });
  EXPECT(has(refused, kBadArg) && has(refused, std::to_string(theirs).c_str()), "%s", refused.c_str());
  EXPECT(has(message_of([&] { apply_log(*in_theirs, 1); }), kBadArg), "a log in it");
  EXPECT(has(message_of([&] { in_theirs->make_tables(tables_of(4), 16, 1); }), kBadArg), "padding in it");
  in_theirs->check();  // it has not answered, which is no error
  gpu_code::require(cudaStreamEndCapture(stream, &graph), "end");
  apply_log(*core, 1);
  apply_log(*in_theirs, 1);
  bench.cuda().record_step(1, theirs);
  bench.flush({static_cast<std::int32_t>(bench.submit({1}, {1}, 1))});
  EXPECT(holds(*bench.target, 1, 1, 1), "behind the step");
  // No call orders a stream with itself.
  plant("fail=1");
  in_theirs->follow(theirs);
  in_theirs->lead(theirs);
  plant("");
  EXPECT(has(message_of([&] {
               plant("fail=1");
               core->follow(theirs);
             }), "cudaEventRecord"), "ordered with another without a call");
  plant("");
}

/// Checks that a GPU has passed are not repeated, except that it exists.
static void test_usable_once() {
  EXPECT(gpu_code::probe(0).usable, "it works");
  plant("hold");  // a self-test would wait for its kernel, and give up
  EXPECT(gpu_code::probe(0).usable, "it was tested again");
  plant("lose=1");
  EXPECT(has(message_of([] { open_core(0); }), kCuda), "a lost GPU");
  EXPECT(!gpu_code::probe(0).usable, "a lost GPU");
  plant("");
  gpu_code::forget_usable();
  gpu_code::trust_mapped_memory();
  plant("hold");
  EXPECT(has(gpu_code::probe(0).reason, "not tested"), "%s", gpu_code::probe(0).reason.c_str());
  plant("");
  gpu_code::forget_usable();
  const std::string reason = gpu_code::probe(0).reason;
  EXPECT(has(reason, "round trip "), "%s", reason.c_str());
}

/// Each call of the self-test fails once. The next self-test repeats all of it.
static void test_failed_checks() {
  u32 failed = 0;
  for (u32 call = 1; call < 40; ++call) {
    gpu_code::forget_usable();
    plant("fail=" + std::to_string(call));
    const gpu_code::Probe found = gpu_code::probe(0);
    failed += !found.usable;
    plant("");
    EXPECT(gpu_code::probe(0).usable, "after call %u: %s", call, gpu_code::probe(0).reason.c_str());
  }
  EXPECT(failed > 20 && failed < 39, "%u calls failed", failed);
}

/// A driver that is too old, memory that is not pinned, a GPU without pools, missing stores and a
/// late store.
static void test_poor_gpus() {
  plant("old=12080");
  const std::string old = gpu_code::probe(0).reason;
  EXPECT(!gpu_code::probe(0).usable && has(old, "the driver is for CUDA 12.8") && has(old, "CUDA 13.0 or newer (R580)"), "%s", old.c_str());
  plant("managed");
  EXPECT(has(message_of([] { gpu_code::allocate_blocks(Place::kPinned, 0, 12345678); }), "instead of pinned memory"), "managed memory");
  plant("devices=4,poolless");
  const std::size_t before = gpu_shim::device_bytes_in_use();
  live_on(3);
  EXPECT(gpu_shim::device_bytes_in_use() == before, "memory stays");
  plant("mute");
  CudaBench silent(options_of(CopyMode::kBatch));
  EXPECT(silent.cuda().info().completion == CompletionMode::kEvent, "stores that do not come");
  silent.flush({static_cast<std::int32_t>(silent.submit({1}, {2}))});
  EXPECT(holds(*silent.target, 2, 1, 1), "by events");
  const auto forced = [] { CudaBench bench(options_of(CopyMode::kBatch, CompletionMode::kWriteValue)); };
  EXPECT(has(message_of(forced), "stores nothing"), "%s", message_of(forced).c_str());
  plant("");
  CudaBench tardy(options_of(CopyMode::kBatch, CompletionMode::kWriteValue));
  plant("tardy=2500");
  const u32 job = tardy.submit({1}, {2});
  tardy.flush({static_cast<std::int32_t>(job)});
  EXPECT(tardy.verdict(job) == kOk, "a word that was late: %u", tardy.verdict(job));
  plant("");
}

/// The matrix product that runs beside measurements: it is correct although its factors come late,
/// and has as many blocks as fit.
static void test_product() {
  plant("late=20000");
  const u32 side = 64;
  std::vector<float> ones(u64{side} * side, 1);
  const std::vector<float> product = bench::multiply(ones, ones, side);
  for (const float each : product) EXPECT(each == static_cast<float>(side), "%f", static_cast<double>(each));
  for (const u32 occupancy : {3u, 7u}) {
    plant("occupancy=" + std::to_string(occupancy));
    const bench::Busy busy(bench::Beside::kPersistent, 0, side, 0);
    EXPECT(busy.blocks() == 4 * occupancy, "%u blocks on 4 multiprocessors", busy.blocks());
  }
  plant("");
}

int main() {
  test_other_device();
  test_other_context();
  test_usable_once();
  test_failed_checks();
  test_capture_of_others();
  test_captured_stream();
  test_poor_gpus();
  test_product();
  test_words_on_their_way();
  test_early_gathers();
  test_padding_on_its_way();
  test_half_of_the_launches();
  test_steps_wait_for_no_idle_gpu();
  test_held_gpu();
  test_held_before_loading();
  std::printf("the back end lives beside other processes, contexts, captures and kernels\n");
  std::fflush(stdout);
  std::_Exit(0);
}
