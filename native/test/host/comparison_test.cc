// Tests the comparison of a GPU with the host, on the emulated device: it detects the differences
// that it should.
//
//   comparison_test [steps] [log with a wrong digest]
#include "../workload/comparison.h"
#include "../support/emulated_device.h"
#include "../support/host_core.h"

using namespace blockstep;
using namespace blockstep::test;

int main(int argc, char** argv) {
  const u64 steps = argument(argc, argv, 1, 300);
  const Accidents accidents{.wrong_digest = static_cast<u32>(argument(argc, argv, 2, 0))};
  const MakeSubject make = [&](const Config& config, u32 max_logs) {
    auto device = std::make_unique<EmulatedDevice>(config, max_logs, slot_words(config), 0, accidents);
    EmulatedDevice* opened = device.get();
    return Subject{std::move(device),
                   [opened](u32* ids, u32 count) { std::copy_n(opened->machine.ids.data(), count, ids); }};
  };
  const MakeDecider make_decider = [&](const Config& config, u32 max_logs) {
    return std::make_unique<EmulatedDevice>(config, max_logs, slot_words(config), 0);
  };
  std::FILE* out = std::tmpfile();
  EXPECT(out != nullptr, "no temporary file");
  try {
    compare_all(out, "  \"device\": \"emulated\",\n", make, make_decider, steps, 1);
  } catch (const Error& error) {
    EXPECT(false, "%s: %s", error.code, error.message.c_str());
  }
  std::printf("comparison: %llu steps of every configuration on the emulated device, %ld bytes of JSON\n", wide(steps),
              std::ftell(out));
  std::fclose(out);
  return 0;
}
