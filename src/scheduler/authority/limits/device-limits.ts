// The options that a deciding GPU does not support.
import { badArg } from '../../../base/checks.js';

/**
 * The options that this file compares with `authority: 'device'`. Each was checked by itself
 * before.
 */
interface DecidedConfig {
  readonly borrower: object | null;
  readonly kvEvents: object | null;
  readonly kvGroups: object | null;
  readonly maxModelLen: number;
}

/**
 * Refuses options that a deciding GPU does not support.
 * @param wholeStepTokens see the function of this name
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and what was expected
 */
export function checkDecidable(config: DecidedConfig, wholeStepTokens: number): void {
  const needsHost = (why: string): Error => badArg('authority', 'device', `host with ${why}`);
  if (config.borrower !== null) throw needsHost('a borrower, because the GPU reads the queues itself');
  if (config.kvEvents !== null) throw needsHost('kvEvents, because only the host publishes them');
  if (config.kvGroups !== null) throw needsHost('kvGroups, because the GPU decides for one group only');
  // A text may grow to this length. After a preemption, a step must then compute it again, whole if
  // chunks are off. The GPU cannot end a request that no step can compute.
  const longest = config.maxModelLen - 1;
  if (wholeStepTokens < longest)
    throw needsHost(`steps of ${wholeStepTokens} tokens that must compute ${longest} without chunks`);
}
