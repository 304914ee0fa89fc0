#include "context.h"

#include <stdexcept>

#include "api/log.h"

namespace blockstep::llama {

Context::Context(const Weights& weights, const ContextConfig& config, api::llama_context_params params, const std::atomic<bool>& stopping)
    : library_(weights.library), context_(nullptr, library_.llama_free) {
  const Log log;
  params.n_threads = config.threads;
  params.type_k = static_cast<api::ggml_type>(config.type_k);
  params.type_v = static_cast<api::ggml_type>(config.type_v);
  params.flash_attn_type = static_cast<api::llama_flash_attn_type>(config.flash_attention);
  params.offload_kqv = params.op_offload = config.on_gpu;
  params.no_perf = true;
  params.kv_unified = true;
  params.swa_full = true;
  params.abort_callback = [](void* data) { return static_cast<const std::atomic<bool>*>(data)->load(std::memory_order_relaxed); };
  params.abort_callback_data = const_cast<std::atomic<bool>*>(&stopping);
  context_.reset(library_.llama_init_from_model(weights.model(), params));
  if (context_ == nullptr) throw std::runtime_error(log.errors("llama.cpp gives no reason"));
}

void Context::start_threads(int count) {
  const auto device = library_.ggml_backend_dev_by_type(api::GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto find = [&](const char* name) {
    return library_.ggml_backend_reg_get_proc_address(library_.ggml_backend_dev_backend_reg(device), name);
  };
  auto* make = reinterpret_cast<api::ggml_threadpool* (*)(api::ggml_threadpool_params*)>(find("ggml_threadpool_new"));
  auto* free = reinterpret_cast<void (*)(api::ggml_threadpool*)>(find("ggml_threadpool_free"));
  // llama.cpp's packages have both functions. A user's own library may lack them. llama.cpp then
  // makes threads in every call.
  if (make == nullptr || free == nullptr) return;
  auto params = library_.ggml_threadpool_params_default(count);
  threads_ = {make(&params), free};
  if (threads_ == nullptr) throw std::runtime_error("threads could not be started");
  library_.llama_attach_threadpool(context_.get(), threads_.get(), threads_.get());
}

std::string decode_failure(int status) {
  switch (status) {
    case 1:
      return "there is no room in the KV cache";
    case 2:
      return "it was broken off";
    case -2:
      return "memory could not be allocated";
    default:
      return "llama_decode gave " + std::to_string(status);
  }
}

}  // namespace blockstep::llama
