// say_fatal_signals: a line in the log before a signal ends the process.
#pragma once

namespace blockstep {

/// From now on a signal that ends the process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) writes a line to standard error first. The process
/// ends as it would have, with the same status and the same core file. What V8 catches for WebAssembly it catches still. Nothing of a thread
/// whose stack is at its end is said, but for the calling one's. For the owner of a process alone: handlers belong to all of it. Further calls
/// do nothing, and so do all on Windows.
void say_fatal_signals();

}  // namespace blockstep
