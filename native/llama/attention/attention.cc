#include "attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#ifndef _WIN32
#include <dlfcn.h>
#endif

namespace blockstep::llama {
namespace {

std::atomic<Kernel> kernel{nullptr};
std::atomic<bool> is_on{false};
std::atomic<uint64_t> num_computed{0};

/// A row that could not be computed gets NaNs, so that its request fails when a token is picked.
void spoil(const AttentionCall& call, int thread, int threads) {
  const Tiles tiles(call, threads);
  for (int number = thread; number < tiles.count(); number += threads) {
    const Tile tile = tiles.tile(number);
    for (int row = tile.first; row < tile.first + tile.rows; row++)
      for (int head = tile.first_head; head < tile.first_head + tile.heads; head++) {
        auto* out = reinterpret_cast<float*>(call.out + (static_cast<int64_t>(row) * call.heads + head) * call.out_head);
        for (int d = 0; d < call.value_size; d++) out[d] = NAN;
      }
  }
}

bool compute(const api::ggml_compute_params& params, const api::ggml_tensor& op) {
  AttentionCall call;
  if (!is_on.load(std::memory_order_relaxed) || params.use_ref || !read_call(op, call)) return false;
  if (params.ith == 0) num_computed.fetch_add(1, std::memory_order_relaxed);
  try {
    kernel.load(std::memory_order_relaxed)(call, params.ith, params.nth);
  } catch (const std::bad_alloc&) {
    spoil(call, params.ith, params.nth);
  }
  return true;
}

// llama.cpp's expected layout of a list entry, by the order of virtual functions:
// ggml-cpu/traits.h. The trial at load checks it: a call of llama.cpp must get here.
struct Traits {
  virtual ~Traits() = default;
  virtual bool work_size(int, const api::ggml_tensor*, std::size_t&) { return false; }
  virtual bool compute_forward(api::ggml_compute_params* params, api::ggml_tensor* op) { return compute(*params, *op); }
};

struct ExtraBufferType {
  virtual ~ExtraBufferType() = default;
  virtual bool supports_op(api::ggml_backend_dev_t, const api::ggml_tensor*) { return false; }
  virtual Traits* get_tensor_traits(const api::ggml_tensor* op) { return op->op == api::GGML_OP_FLASH_ATTN_EXT ? &traits : nullptr; }
  Traits traits;
};

using List = std::vector<api::ggml_backend_buffer_type_t>;

/// The list of the CPU backend; null if it is inaccessible.
List* list_of(const Library& library, api::ggml_backend_dev_t device) {
  const auto registry = library.ggml_backend_dev_backend_reg(device);
  // Weights are laid out by a copy of the list, made at the first call. That copy must not contain
  // our entry.
  auto* copy = reinterpret_cast<void* (*)(api::ggml_backend_dev_t)>(
      library.ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
  if (copy == nullptr) return nullptr;
  copy(device);
#ifdef _WIN32
  return nullptr;  // it is not exported
#else
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(copy), &info) == 0) return nullptr;
  void* file = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (file == nullptr) return nullptr;
  auto* list = reinterpret_cast<List& (*)()>(dlsym(file, "_Z39ggml_backend_cpu_get_extra_buffer_typesv"));
  dlclose(file);
  return list == nullptr ? nullptr : &list();
#endif
}

void attend_broken(const AttentionCall& call, int thread, int threads) {
  AttentionCall other = call;
  other.cells = std::max<int64_t>(1, call.cells - 1);
  kernel_of("plain").kernel(other, thread, threads);
}

/// Right for the cells of the trial at load, and out of memory in one thread for more.
void attend_starved(const AttentionCall& call, int thread, int threads) {
  if (call.cells > 512 && thread == threads - 1) throw std::bad_alloc();
  kernel_of("plain").kernel(call, thread, threads);
}

/// Runs the trial at load: the shapes of models, with each path of the kernel once.
std::string why_wrong(const Library& library) {
  const Trial trials[] = {
      {api::GGML_TYPE_F16, 64, 64, 2, 7, 1, 200, 0, false, false, 1, 1, 0},
      {api::GGML_TYPE_F16, 128, 128, 2, 4, 21, 310, 0, true, false, 1, 2, 1},
      {api::GGML_TYPE_F32, 80, 80, 1, 1, 17, 190, 30, false, false, 1, 3, 2},
      {api::GGML_TYPE_F32, 64, 32, 2, 3, 9, 130, 0, true, true, 1, 4, 2},
      {api::GGML_TYPE_Q8_0, 64, 64, 1, 2, 5, 70, 0, false, false, 1, 5, 0},
  };
  for (const Trial& trial : trials) {
    const TrialResult result = try_attention(library, trial);
    if (!result.was_ours) return "llama.cpp does not ask it";
    const double most = trial.type == api::GGML_TYPE_F32 ? 1e-4 : trial.type == api::GGML_TYPE_F16 ? 1e-2 : 5e-2;
    if (!(result.distance < most)) return "it differs from llama.cpp's by " + std::to_string(result.distance) + " in trial " + std::to_string(trial.seed);
  }
  return "";
}

}  // namespace

bool let_ours_compute(bool does) { return is_on.exchange(does); }

uint64_t computed_by_ours() { return num_computed.load(); }

NamedKernel kernel_of(const std::string& name) {
#ifndef _MSC_VER
#ifdef __x86_64__
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx512 && (name.empty() || name == "avx512")) return {"avx512", attend_avx512};
  if (has_avx2 && (name.empty() || name == "avx2")) return {"avx2", attend_avx2};
#endif
#ifdef __aarch64__
  if (name.empty() || name == "neon") return {"neon", attend_neon};
#endif
  if (name.empty() || name == "plain") return {"plain", attend_plain};
  // For tests:
  if (name == "broken") return {"broken", attend_broken};
  if (name == "starved") return {"starved", attend_starved};
#endif
  return {};
}

const Attention& Attention::put(const Library& library, const std::string& wish) {
  static std::mutex mutex;
  static Attention* known = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (known != nullptr) {
    if (wish.empty() || wish == known->name_) return *known;
    throw std::runtime_error("attention must be " + known->name_ + ", which this process uses already, got " + wish);
  }
  auto* const own = new Attention;
  known = own;
  if (wish == "llama") return *own;
  const NamedKernel body = kernel_of(wish);
  if (body.kernel == nullptr) {
    own->reason_ = "there is no kernel " + wish + " for this processor";
    return *own;
  }
  const auto device = library.ggml_backend_dev_by_type(api::GGML_BACKEND_DEVICE_TYPE_CPU);
  List* const list = device == nullptr ? nullptr : list_of(library, device);
  if (list == nullptr) {
    own->reason_ = "this build of llama.cpp exports no list of buffer types";
    return *own;
  }
  kernel = body.kernel;
  static ExtraBufferType extra;
  static api::ggml_backend_buffer_type type{};
  type.device = device;
  type.context = &extra;
  list->push_back(&type);
  is_on = true;
  try {
    own->reason_ = why_wrong(library);
  } catch (const std::exception& error) {
    own->reason_ = error.what();
  }
  if (own->reason_.empty()) {
    own->name_ = body.name;
    return *own;
  }
  is_on = false;
  list->pop_back();
  return *own;
}

}  // namespace blockstep::llama
