// A decode that the host decided, applied by kernels that are not in the product.
#pragma once

#include "kernels/apply_ways.h"
#include "kernels/matrix_product.h"
#include "worn_pool.h"

namespace blockstep::bench {

/// A device whose logs use a selected kernel.
class WaysDevice final : public Device {
 public:
  explicit WaysDevice(std::unique_ptr<cuda::CudaDevice> inner) : inner_(std::move(inner)) {}

  /// Selects the kernel from the next log on. It must support every later log.
  void choose(const ApplyWay& way) { way_ = &way; }

  void apply_value(Job job, Carrier carrier, const u32* log, u32 words) override {
    if (!way_->kernel) return inner_->apply_value(job, carrier, log, words);
    EXPECT(words <= way_->words, "a log of %u words is too long for %s", words, way_->name);
    inner_->apply_by(way_->kernel, way_->threads, job, log, words);
  }

  u32* slot(u32 index) override { return inner_->slot(index); }
  const Completion& completion(u32 slot) const override { return inner_->completion(slot); }
  const Completion& digest_completion() const override { return inner_->digest_completion(); }
  void apply_slot(Job job, u32 words) override { inner_->apply_slot(job, words); }
  void start_digest(u32 number) override { inner_->start_digest(number); }
  u32* batch() override { return inner_->batch(); }
  const u32* decision() const override { return inner_->decision(); }
  const Completion& decision_completion() const override { return inner_->decision_completion(); }
  void decide_value(u32 number, Carrier carrier, const u32* batch, u32 words) override {
    inner_->decide_value(number, carrier, batch, words);
  }
  void decide_slot(u32 number, u32 words) override { inner_->decide_slot(number, words); }
  bool is_capturing(u64 stream) override { return inner_->is_capturing(stream); }
  void follow(u64 stream) override { inner_->follow(stream); }
  void lead(u64 stream) override { inner_->lead(stream); }
  DeviceTables& make_tables(const TablesShape& shape, u32 block_size, u32 num_slots) override {
    return inner_->make_tables(shape, block_size, num_slots);
  }
  bool joins() const override { return inner_->joins(); }
  void apply_and_gather(Job job, const u32* log, u32 log_words, const GatherHead& head, const u32* words, u32 count) override {
    inner_->apply_and_gather(job, log, log_words, head, words, count);
  }
  void check() override { inner_->check(); }
  u64 device_bytes() const override { return inner_->device_bytes(); }
  u64 pinned_bytes() const override { return inner_->pinned_bytes(); }

 private:
  std::unique_ptr<cuda::CudaDevice> inner_;
  const ApplyWay* way_ = &apply_ways()[0];
};

class WaysBench {
 public:
  explicit WaysBench(u32 device) : WaysBench(std::make_unique<WaysDevice>(open(device))) {}

  /// All ways in turn, idle and directly after a product. The digest of the whole state is compared
  /// after some steps of each way alone, and at the end.
  void run(OneProduct& product, const Effort& effort, const Effort& behind) {
    for (const ApplyWay& way : apply_ways()) {
      device_.choose(way);
      repeat({.samples = 20, .warmup = 0}, [&](bool) { step([] {}); });
      restore();
    }
    measure("idle", effort, [] {});
    measure("right behind a matrix product", behind, [&] { product.run(); });
  }

 private:
  explicit WaysBench(std::unique_ptr<WaysDevice> device) : device_(*device), pool_(std::move(device)) {}

  static std::unique_ptr<cuda::CudaDevice> open(u32 device) {
    cuda::Options options;
    options.device = device;
    options.max_logs = WornPool::kMaxLogs;
    return std::make_unique<cuda::CudaDevice>(kPool, options);
  }

  /// Selects the product's kernel again, and makes the GPU's state equal to the host's.
  void restore() {
    device_.choose(apply_ways()[0]);
    pool_.compare();
  }

  struct Times {
    Clock::duration whole;
    Clock::duration launch;
  };
  /// One decode. A log that makes room for it uses the product's kernel.
  template <class Before>
  Times step(const Before& just_before) {
    test::Log log;
    pool_.measured_steps()[0].step(log);
    pool_.apply_here(log);
    just_before();
    const auto start = Clock::now();
    pool_.append(log);
    pool_.mirror().submit();
    const auto launched = Clock::now();
    pool_.settle();
    return {Clock::now() - start, launched - start};
  }

  template <class Before>
  void measure(const char* beside, const Effort& effort, const Before& just_before) {
    const std::vector<ApplyWay>& ways = apply_ways();
    std::vector<Samples> whole(ways.size());
    std::vector<Samples> launch(ways.size());
    Effort all = effort;
    all.most *= static_cast<int>(ways.size());
    repeat(all, [&](bool counts) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        device_.choose(ways[0]);
        pool_.make_room();
        device_.choose(ways[i]);
        const Times times = step(just_before);
        if (!counts) continue;
        whole[i].add(times.whole);
        launch[i].add(times.launch);
      }
    });
    restore();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::string name = std::string("decode of 256 applied by another kernel, ") + ways[i].name;
      print({name, nullptr, beside}, whole[i]);
      print({name + ", host side", nullptr, beside}, launch[i]);
    }
  }

  WaysDevice& device_;  // owned by pool_
  WornPool pool_;
};

}  // namespace blockstep::bench
