// Judges the output of compute-sanitizer.
import type { Ended } from '../host/command.js';
import { tail } from '../host/command.js';
import type { Verdict } from '../record/record.js';
import { words } from './native-build.js';

/** Exit code that compute-sanitizer is told to end with when it has found something. */
export const FOUND_EXIT_CODE = 86;

/**
 * Messages of the sanitizer where it cannot work: no support for the device or the system below it,
 * no way to attach. Then nothing was checked, whatever the program did.
 */
const REFUSALS = [
  /Device not supported[^\n]*/i,
  /(?:Unable|Failed) to (?:initialize|attach|inject|load|start)[^\n]*/i,
  /(?:InternalError|Internal Sanitizer Error)[^\n]*/i,
  /Target application terminated before first instrumented API call[^\n]*/i,
  /No attachable process found[^\n]*/i,
  /not supported (?:on|by|in) this (?:device|platform|driver|system)[^\n]*/i,
  /Insufficient (?:driver|permissions)[^\n]*/i,
];

/**
 * Judges one run of compute-sanitizer. `passed` only if its own summary says that it found nothing and the program ended
 * well; a run without a summary has proved nothing.
 */
export function judgeSanitizer(ended: Ended): { verdict: Verdict; detail: unknown } {
  const { status, timedOut, stdout, stderr } = ended;
  const text = `${stdout}\n${stderr}`;
  const lines = text.split('\n').filter((line) => line.startsWith('========='));
  const said = lines.join('\n');
  if (timedOut) return { verdict: 'unfinished', detail: words(ended) };
  const refusal = REFUSALS.map((pattern) => pattern.exec(said)?.[0]).find((words) => words !== undefined);
  if (refusal !== undefined) return { verdict: 'unavailable', detail: `${refusal}\n${tail(said, 12)}` };
  const summary = /(?:ERROR SUMMARY|RACECHECK SUMMARY): (.*)/.exec(said)?.[1];
  if (summary === undefined) return { verdict: 'failed', detail: `no summary; ${words(ended)}` };
  const found = countOf(summary);
  if (found === 0 && status === 0) return { verdict: 'passed', detail: summary };
  return {
    verdict: 'failed',
    detail: `${summary}\n${found === 0 ? words(ended) : tail(lines.slice(0, 40).join('\n'), 40)}`,
  };
}

/** "2 errors", "0 hazards displayed (0 errors, 0 warnings)": the first number. */
function countOf(summary: string): number {
  return Number(/\d+/.exec(summary)?.[0] ?? Number.NaN);
}
