// run_deep: runs something in a thread of its own that has as large a stack as is wanted, and waits for it.
#pragma once

#include <cstddef>
#include <functional>

namespace blockstep::llama {

/// Memory is taken as the stack is used, and given back at the end.
/// @throws what `work` throws; std::runtime_error if there is no such thread to be had
void run_deep(std::size_t stack_bytes, const std::function<void()>& work);

}  // namespace blockstep::llama
