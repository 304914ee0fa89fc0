// A random attention by both kernels, for the test at load and for the tests.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "attention.h"

namespace blockstep::llama {
namespace {

/// The tensors of one attention, and their compute graph.
class Bench {
 public:
  Bench(const Library& library, const Trial& trial) : library_(library), trial_(trial), random_(trial.seed) {
    const auto cells = static_cast<std::size_t>(trial.cells), kv_heads = static_cast<std::size_t>(trial.kv_heads);
    const std::size_t heads = kv_heads * static_cast<std::size_t>(trial.group), rows = static_cast<std::size_t>(trial.rows);
    const auto width = static_cast<std::size_t>(trial.key_size + trial.value_size);
    const std::size_t bytes = 4 * width * (cells * kv_heads + 3 * rows * heads) + 2 * cells * rows + (std::size_t{1} << 21);
    context_ = library.ggml_init({bytes, nullptr, false});
    device_ = library.ggml_backend_dev_by_type(api::GGML_BACKEND_DEVICE_TYPE_CPU);
    backend_ = library.ggml_backend_dev_init(device_, nullptr);
    if (context_ == nullptr || backend_ == nullptr) throw std::runtime_error("there is no memory to try attention in");
    const auto registry = library.ggml_backend_dev_backend_reg(device_);
    auto* set_threads = reinterpret_cast<void (*)(api::ggml_backend_t, int)>(
        library.ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
    if (set_threads != nullptr) set_threads(backend_, trial.threads);
    // Like in llama.cpp, the heads of a cell are side by side.
    q_ = tensor(api::GGML_TYPE_F32, trial.key_size, trial.rows, trial.kv_heads * trial.group);
    k_ = stored(trial.key_size);
    v_ = stored(trial.value_size);
    mask_ = tensor(api::GGML_TYPE_F16, trial.cells, trial.rows, 1);
    fill(static_cast<float*>(q_->data), static_cast<std::size_t>(trial.key_size) * rows * heads, 1);
    fill_mask();
    if (!trial.has_sinks) return;
    sinks_ = library.ggml_new_tensor_4d(context_, api::GGML_TYPE_F32, trial.kv_heads * trial.group, 1, 1, 1);
    fill(static_cast<float*>(sinks_->data), heads, 2);
  }

  ~Bench() {
    if (backend_ != nullptr) library_.ggml_backend_free(backend_);
    if (context_ != nullptr) library_.ggml_free(context_);
  }

  /// Computes rows [first, first + rows). @returns [row][head][number]
  std::vector<float> compute(int first, int rows) {
    api::ggml_tensor q = *q_, mask = *mask_;
    q.ne[1] = mask.ne[1] = rows;
    q.data = static_cast<char*>(q_->data) + static_cast<std::size_t>(first) * q_->nb[1];
    mask.data = static_cast<char*>(mask_->data) + static_cast<std::size_t>(first) * mask_->nb[1];
    auto* out = library_.ggml_flash_attn_ext(context_, &q, k_, v_, &mask, 1.0f / std::sqrt(static_cast<float>(trial_.key_size)), 0, trial_.cap);
    if (sinks_ != nullptr) library_.ggml_flash_attn_ext_add_sinks(out, sinks_);
    auto* graph = library_.ggml_new_graph(context_);
    library_.ggml_build_forward_expand(graph, out);
    if (library_.ggml_backend_graph_compute(backend_, graph) != api::GGML_STATUS_SUCCESS) throw std::runtime_error("llama.cpp could not try attention");
    const auto* numbers = static_cast<const float*>(out->data);
    return {numbers, numbers + out->ne[0] * out->ne[1] * out->ne[2]};
  }

 private:
  api::ggml_tensor* tensor(api::ggml_type type, int size, int count, int heads) {
    return library_.ggml_new_tensor_4d(context_, type, size, count, heads, 1);
  }

  api::ggml_tensor* stored(int size) {
    const auto count = static_cast<std::size_t>(size) * static_cast<std::size_t>(trial_.kv_heads) * static_cast<std::size_t>(trial_.cells);
    std::vector<float> numbers(count);
    fill(numbers.data(), count, 1);
    auto* made = tensor(trial_.type, size, trial_.cells, trial_.kv_heads);
    library_.ggml_quantize_chunk(trial_.type, numbers.data(), made->data, 0, static_cast<int64_t>(trial_.kv_heads) * trial_.cells, size, nullptr);
    // The layout is [head][number] of a cell, then the next cell.
    made->nb[2] = made->nb[1];
    made->nb[1] *= static_cast<std::size_t>(trial_.kv_heads);
    return made;
  }

  void fill(float* numbers, std::size_t count, float deviation) {
    std::normal_distribution<float> normal(0, deviation);
    for (std::size_t i = 0; i < count; i++) numbers[i] = normal(random_);
  }

  void fill_mask() {
    auto* mask = static_cast<uint16_t*>(mask_->data);
    const auto below = [this](int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); };
    const int shared = below(trial_.cells), some = 1 + below(6);
    for (int row = 0; row < trial_.rows; row++) {
      uint16_t* const own = mask + static_cast<std::size_t>(row) * static_cast<std::size_t>(trial_.cells);
      const int last = std::max(0, trial_.cells - trial_.rows + row);
      for (int cell = 0; cell < trial_.cells; cell++) {
        const bool reads = trial_.pattern == 0   ? below(some) == 0
                           : trial_.pattern == 1 ? cell <= last
                                                 : cell < shared || cell % (1 + row / 3) == row % 3;
        // If the mask has biases, they are F16 numbers between -2 and 2.
        own[cell] = reads ? trial_.has_biases && below(4) == 0 ? static_cast<uint16_t>(below(0x4000) | below(2) << 15) : 0 : kNever;
      }
    }
  }

  const Library& library_;
  const Trial trial_;
  std::mt19937 random_;
  api::ggml_backend_dev_t device_ = nullptr;
  api::ggml_context* context_ = nullptr;
  api::ggml_backend_t backend_ = nullptr;
  api::ggml_tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *mask_ = nullptr, *sinks_ = nullptr;
};

}  // namespace

TrialResult try_attention(const Library& library, const Trial& trial) {
  Bench bench(library, trial);
  const uint64_t computed = computed_by_ours();
  const auto ours = bench.compute(0, trial.rows);
  TrialResult result;
  result.was_ours = computed_by_ours() > computed;
  const std::size_t line = ours.size() / static_cast<std::size_t>(trial.rows);
  for (int row = 0; row < trial.rows; row += 1 + trial.rows / 4) {
    const auto alone = bench.compute(row, 1);
    result.is_same_alone &= std::memcmp(alone.data(), &ours[static_cast<std::size_t>(row) * line], line * sizeof(float)) == 0;
  }
  const bool was = let_ours_compute(false);
  std::vector<float> theirs;
  try {
    theirs = bench.compute(0, trial.rows);
  } catch (...) {
    let_ours_compute(was);
    throw;
  }
  let_ours_compute(was);
  const auto size = static_cast<std::size_t>(trial.value_size);
  for (std::size_t at = 0; at < ours.size(); at += size) {
    double apart = 0, length = 0;
    for (std::size_t i = at; i < at + size; i++) {
      apart += (static_cast<double>(ours[i]) - theirs[i]) * (static_cast<double>(ours[i]) - theirs[i]);
      length += static_cast<double>(theirs[i]) * theirs[i];
    }
    const double distance = std::sqrt(apart / (length + 1e-6));
    if (!(distance <= result.distance)) result.distance = distance;
  }
  return result;
}

}  // namespace blockstep::llama
