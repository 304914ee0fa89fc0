#!/usr/bin/env node
// The process of the command line: its streams, its interrupts, its exit code.
import { describeError } from '../base/errors.js';
import { runProgram } from './program.js';
import { ExitCode } from './terminal/io.js';

const interrupt = new AbortController();
// The first interrupt ends the command in good order. A second interrupt finds no handler and kills
// the process.
const onInterrupt = (): void => interrupt.abort();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onInterrupt);
// A reader such as `head` may close the pipe early. An error message would then reach nobody.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(ExitCode.ok);
  process.stderr.write(`the output cannot be written: ${error.code ?? error.message}\n`);
  process.exit(ExitCode.failed);
});
// Node prints the stack after this line. A client of Redis or ZeroMQ may throw where nobody can
// catch the error.
process.on('uncaughtExceptionMonitor', (error: unknown, origin) => {
  process.stderr.write(`blockstep ends: an error that nobody caught (${origin}): ${describeError(error)}\n`);
});
const io = {
  stdout: process.stdout,
  stderr: process.stderr,
  again: 'npx blockstep replay',
  signal: interrupt.signal,
  passInterrupts: () => void process.off('SIGINT', onInterrupt).off('SIGTERM', onInterrupt),
};
process.exitCode = await runProgram(process.argv.slice(2), io);
