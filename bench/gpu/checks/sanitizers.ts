// One tool of compute-sanitizer over a native program.
import { runCommand } from '../host/command.js';
import { findProgram } from '../host/host.js';
import type { Outcome } from '../record/record.js';
import { FOUND_EXIT_CODE, judgeSanitizer } from './sanitizer-report.js';

export const SANITIZERS = ['memcheck', 'racecheck', 'synccheck', 'initcheck'] as const;
export type Sanitizer = (typeof SANITIZERS)[number];

/** Steps of each program under a sanitizer: every kernel and every way that a log travels, in some seconds. */
export const SANITIZED_STEPS = { test: 200, tables: 15 } as const;

/**
 * A tool may make launches wait for their kernels. So the program must not query a running kernel.
 * Unfinished work must not count as an error of the interface.
 */
export function sanitizerArguments(tool: Sanitizer, program: string, steps: number): string[] {
  return [
    ...['--tool', tool],
    ...['--error-exitcode', String(FOUND_EXIT_CODE)],
    ...['--print-limit', '20'],
    ...(tool === 'memcheck' ? ['--report-api-errors', 'no'] : []),
    program,
    ...['--steps', String(steps)],
    ...['--trust-mapped', '1'],
  ];
}

/** (c) One tool of compute-sanitizer over a native program. */
export async function sanitize(
  tool: Sanitizer,
  program: string,
  steps: number,
  limit: number,
): Promise<Outcome> {
  const sanitizer = findProgram('compute-sanitizer');
  if (sanitizer === null) {
    return { verdict: 'unavailable', seconds: 0, detail: 'there is no compute-sanitizer' };
  }
  const ended = await runCommand(sanitizer, sanitizerArguments(tool, program, steps), { limit });
  return { ...judgeSanitizer(ended), seconds: ended.seconds };
}
