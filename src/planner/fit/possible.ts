// Refuses logs whose steps are faster than the GPU's memory allows.
import { BlockstepError } from '../../base/errors.js';
import type { Physics } from '../model/physics.js';
import type { LoggedStep } from './iteration-log.js';
import type { RequestLog } from './request-log.js';

/** This fraction may be faster than the data sheet allows, because a clock is sometimes read late. */
const TOO_FAST = 0.1;

/**
 * Refuses a log whose steps are too short to read the weights. Some logs contain the time in which
 * the host submitted a step.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkSteps(steps: readonly LoggedStep[], physics: Physics): void {
  check(
    steps.map(({ elapsedMs }) => elapsedMs),
    physics,
    'iterations',
    'or vLLM ran with --async-scheduling, which logs another time than that of the step',
  );
}

/**
 * Refuses results whose tokens follow each other faster than the GPU can read the weights.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkRequests({ workload, times }: RequestLog, physics: Physics): void {
  const gaps: number[] = [];
  for (const [i, tokens] of workload.outputTokens.entries()) {
    if (tokens > 1) gaps.push((times.lastMs[i] - times.firstMs[i]) / (tokens - 1));
  }
  check(gaps, physics, 'times between tokens', 'or the server drafted tokens');
}

function check(timesMs: readonly number[], physics: Physics, what: string, orElse: string): void {
  const leastMs = (1000 * physics.weightBytes) / physics.memoryBytesPerSecond;
  const tooFast = timesMs.filter((ms) => ms < 0.9 * leastMs).length;
  if (tooFast <= TOO_FAST * timesMs.length) return;
  const found = `${tooFast} of ${timesMs.length} ${what} are shorter than the ${leastMs.toFixed(2)} ms in which the GPU can read the weights`;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${found}. They are of another model or GPU, ${orElse}`);
}
