#include "threads.h"

#include <stdexcept>

namespace blockstep::llama {

Threads::Threads(const Library& library, api::llama_context* context, int count) {
  const auto device = library.ggml_backend_dev_by_type(api::GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto find = [&](const char* name) {
    return library.ggml_backend_reg_get_proc_address(library.ggml_backend_dev_backend_reg(device), name);
  };
  auto* make = reinterpret_cast<api::ggml_threadpool* (*)(api::ggml_threadpool_params*)>(find("ggml_threadpool_new"));
  free_ = reinterpret_cast<void (*)(api::ggml_threadpool*)>(find("ggml_threadpool_free"));
  // llama.cpp's packages have both. A library of one's own may lack them: then llama.cpp makes threads in every call.
  if (make == nullptr || free_ == nullptr) return;
  auto params = library.ggml_threadpool_params_default(count);
  pool_ = make(&params);
  if (pool_ == nullptr) throw std::runtime_error("threads could not be started");
  library.llama_attach_threadpool(context, pool_, pool_);
}

Threads::~Threads() {
  if (pool_ != nullptr) free_(pool_);
}

}  // namespace blockstep::llama
