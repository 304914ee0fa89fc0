// say_fatal_signals: logs a line before a signal ends the process.
#pragma once

namespace blockstep {

/// From now on a signal that ends the process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) first
/// writes a line to standard error. The process then ends as without the handler, with the same
/// status and core file. Signals that V8 handles for WebAssembly are still handled. A stack
/// overflow is reported only for the thread of this call. Only the owner of a process should call
/// this, because handlers are process-wide. Further calls do nothing. On Windows no call has an
/// effect.
void say_fatal_signals();

}  // namespace blockstep
