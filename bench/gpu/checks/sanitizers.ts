import { runCommand } from '../host/command.js';
import { findProgram } from '../host/host.js';
import type { Outcome } from '../record/record.js';
import { FOUND_EXIT_CODE, judgeSanitizer } from './sanitizer-report.js';

export const SANITIZERS = ['memcheck', 'racecheck', 'synccheck', 'initcheck'] as const;
export type Sanitizer = (typeof SANITIZERS)[number];

/** Steps of each program under a sanitizer: every kernel and every way that a log travels, in some seconds. */
export const SANITIZED_STEPS = { test: 400, tables: 20 } as const;

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
  const args = ['--tool', tool, '--error-exitcode', String(FOUND_EXIT_CODE), '--print-limit', '20'];
  const ended = await runCommand(sanitizer, [...args, program, '--steps', String(steps)], { limit });
  return { ...judgeSanitizer(ended), seconds: ended.seconds };
}
