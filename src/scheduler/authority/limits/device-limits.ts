import { badArg } from '../../../base/checks.js';

/** Options, each already checked, that cannot all be combined with a GPU that decides. */
interface DecidedConfig {
  readonly borrower: object | null;
  readonly kvEvents: object | null;
  readonly kvGroups: object | null;
}

/**
 * Refuses options that cannot be combined with a GPU that decides.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and what was expected
 */
export function checkDecidable(config: DecidedConfig): void {
  const needsHost = (why: string): Error => badArg('authority', 'device', `host with ${why}`);
  if (config.borrower !== null) throw needsHost('a borrower: the GPU reads the queues by itself');
  if (config.kvEvents !== null) throw needsHost('kvEvents: the host tells them');
  if (config.kvGroups !== null) throw needsHost('kvGroups: the GPU decides for one group');
}
