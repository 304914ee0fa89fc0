import { badArg } from '../../../base/checks.js';

/** Options, each already checked, that cannot all be combined with a GPU that decides. */
interface DecidedConfig {
  readonly borrower: object | null;
  readonly kvEvents: object | null;
  readonly kvGroups: object | null;
  readonly maxModelLen: number;
}

/**
 * Refuses what does not go with a GPU that decides.
 * @param wholeStepTokens see the function of this name
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and what was expected
 */
export function checkDecidable(config: DecidedConfig, wholeStepTokens: number): void {
  const needsHost = (why: string): Error => badArg('authority', 'device', `host with ${why}`);
  if (config.borrower !== null) throw needsHost('a borrower: the GPU reads the queues by itself');
  if (config.kvEvents !== null) throw needsHost('kvEvents: the host tells them');
  if (config.kvGroups !== null) throw needsHost('kvGroups: the GPU decides for one group');
  // A text may grow to this length, and must then be computed again behind a preemption; the GPU ends nobody of whom no step can.
  const longest = config.maxModelLen - 1;
  if (wholeStepTokens < longest)
    throw needsHost(`steps of ${wholeStepTokens} tokens that must compute ${longest} without chunks`);
}
