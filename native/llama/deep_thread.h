// run_deep: runs a function in a new thread with a stack of the given size, and waits for it.
#pragma once

#include <cstddef>
#include <functional>

namespace blockstep::llama {

/// The stack takes memory as it is used, and frees it at the end.
/// @throws exceptions of `work`; std::runtime_error if no such thread can be started
void run_deep(std::size_t stack_bytes, const std::function<void()>& work);

}  // namespace blockstep::llama
