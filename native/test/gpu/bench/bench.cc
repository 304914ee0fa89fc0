// Measures the core on a GPU, through the classes that the addon uses.
//
//   cuda_bench [--quick 1] [--device D] [--beside NAME]
//              [--only ladder,ways,copies,beside,calls,steps,decider,tables]
//
// Prints one JSON object a line, each a figure. --quick takes a few samples of everything, as a
// test. Its figures mean nothing. The value of --beside is the concurrent work of calls, steps and
// tables ("idle", "copies from the host", ...). The part "calls" only runs if it is named, because
// a driver may never return from a call. A measurement without progress for five seconds reports
// its position on stderr. Exit codes: 0 done, 1 an error, 2 no usable GPU.
#include "../../../cuda/base/gpu.h"
#include "../../../cuda/device/probe.h"
#include "calls_bench.h"
#include "copy_bench.h"
#include "decider_bench.h"
#include "kernels/ladder.h"
#include "stall_watch.h"
#include "step_bench.h"
#include "tables_bench.h"
#include "ways_bench.h"

using namespace blockstep;
using namespace blockstep::bench;
using blockstep::test::option;

/// Checks the matrix product that runs beside the measurements.
static void check_product(u32 side) {
  std::vector<float> a(u64{side} * side);
  std::vector<float> b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 7);
    b[i] = static_cast<float>(i % 5);
  }
  const std::vector<float> c = multiply(a, b, side);
  for (u32 row = 0; row < side; row += side / 8 + 1) {
    for (u32 column = 0; column < side; column += 3) {
      float sum = 0;
      for (u32 k = 0; k < side; ++k) sum += a[u64{row} * side + k] * b[u64{k} * side + column];
      EXPECT(c[u64{row} * side + column] == sum, "row %u, column %u of the product", row, column);
    }
  }
}

/// Measures the cost of a completion for the kernel, with and without a release.
static void print_completions() {
  const CompletionTimes times = measure_completions();
  const auto one = [](const char* name, double nanoseconds) {
    Samples samples;
    samples.add(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::nano>(nanoseconds)));
    print({name}, samples);
  };
  one("a completion, released", times.released);
  one("a completion of words that stand for themselves", times.relaxed);
}

constexpr Beside kBesides[] = {Beside::kIdle, Beside::kProduct, Beside::kPersistent, Beside::kCopies};

/// The value of an option of the command; empty: the option was not given.
static std::string word_of(int argc, char** argv, const std::string& name) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) return argv[i + 1];
  }
  return {};
}

int main(int argc, char** argv) {
  const bool quick = option(argc, argv, "--quick", 0) != 0;
  const auto device = static_cast<u32>(option(argc, argv, "--device", 0));
  const cuda::Probe found = cuda::probe(device);
  if (!found.usable) {
    std::fprintf(stderr, "no GPU to measure on: %s\n", found.reason.c_str());
    return 2;
  }
  const std::string only = word_of(argc, argv, "--only");
  const auto wants = [&](const char* part) { return only.empty() || ("," + only + ",").find("," + std::string(part) + ",") != std::string::npos; };
  const std::string beside_only = word_of(argc, argv, "--beside");
  const auto measured_beside = [&](Beside beside) { return beside_only.empty() || beside_only == name_of(beside); };
  const Effort effort = quick ? Effort{3, 1} : Effort{};
  // Each comes after a product of many milliseconds.
  const Effort few = quick ? effort : Effort{200, 5};
  const u32 side = quick ? 64 : 4096;
  const u64 copy_bytes = quick ? 4096 : u64{64} << 20;
  const auto warm = std::chrono::milliseconds(quick ? 10 : 1000);
  try {
    // Matrix products and measurements use memory of the GPU whose context is current.
    const cuda::OnDevice on(static_cast<int>(device));
    check_product(128);
    {
      // An idle GPU takes a second to reach its full clock.
      const Busy busy(Beside::kProduct, static_cast<int>(device), side, copy_bytes);
      std::this_thread::sleep_for(warm);
    }
    clock_mhz = measure_clock();
    const StallWatch watch;
    if (wants("ladder")) {
      print_completions();
      climb_ladder(effort);
    }
    if (wants("ways")) {
      OneProduct product(side, quick ? 1 : 2);
      WaysBench(device).run(product, effort, few);
    }
    const std::size_t sizes = quick ? 1 : std::size(kBlockBytes);
    if (wants("copies")) {
      CopyBench copies(device, quick ? 64 << 10 : kJobBytes, side, copy_bytes);
      copies.run(effort, sizes);
    }
    if (!only.empty() && wants("calls")) {
      CallsBench calls(device, side, copy_bytes);
      for (const Beside beside : kBesides) {
        if (measured_beside(beside)) calls.run(beside, quick ? 2 : 20);
      }
    }
    MirrorBench mirror(device);
    DeciderBench decider(device);
    TablesBench tables[] = {{device, 256, false}, {device, 1024, false}, {device, 256, true}, {device, 1024, true}};
    for (const Beside beside : kBesides) {
      if (!measured_beside(beside)) continue;
      const Busy busy(beside, static_cast<int>(device), side, copy_bytes);
      // A quick run only shows that the others run at all.
      if (quick && beside != Beside::kIdle && beside != Beside::kProduct) continue;
      if (beside == Beside::kIdle) clock_mhz = measure_clock();
      if (wants("steps")) mirror.run(beside, effort);
      if (wants("decider")) decider.run(beside, effort);
      if (wants("tables")) {
        for (TablesBench& bench : tables) bench.run(beside, effort);
      }
      EXPECT(busy.still_at_work(), "%s ended", name_of(beside));
      if (beside != Beside::kIdle || !wants("steps")) continue;
      // The realistic case comes early, so that an aborted run includes it.
      OneProduct product(side, quick ? 1 : 2);
      mirror.run_behind(product, few);
      MirrorBench(device, true).run_by_thread(effort);
    }
    // This is last, because one of two streams that copy in the same direction may wait forever,
    // which ends the benchmark.
    if (wants("beside")) CopyBench(device, quick ? 64 << 10 : kJobBytes, side, copy_bytes).run_beside(effort, sizes);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.code, error.message.c_str());
    return 1;
  }
  return 0;
}
