// Kernel: a body of the kernel for one kind of processor.
#pragma once

#include <string>

#include "call.h"

namespace blockstep::llama {

/// Computes the share of thread `thread` of `threads`. All threads together compute the call.
using Kernel = void (*)(const AttentionCall& call, int thread, int threads);

void attend_avx512(const AttentionCall& call, int thread, int threads);
void attend_avx2(const AttentionCall& call, int thread, int threads);
void attend_neon(const AttentionCall& call, int thread, int threads);
void attend_plain(const AttentionCall& call, int thread, int threads);

struct NamedKernel {
  const char* name = nullptr;
  Kernel kernel = nullptr;
};

/// The body with this name, or the fastest body for this processor if the name is empty. Empty if
/// the processor does not support it.
NamedKernel kernel_of(const std::string& name);

}  // namespace blockstep::llama
