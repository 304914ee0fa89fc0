// Replaces the forward pass of a model runner: a kernel that reads the tables.
#pragma once

namespace blockstep::test {

/// Copies words: (const u32* from, u32* to, u64 words), by any grid of blocks of kThreads threads.
const void* copy_words_kernel();

}  // namespace blockstep::test
