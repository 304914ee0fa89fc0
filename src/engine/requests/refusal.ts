import { BlockstepError, describeError } from '../../base/errors.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { EngineConfig } from '../state/options.js';

/** What is known of a request or a chunk whose fields are good. */
interface Checked {
  readonly prompt: Int32Array;
  readonly params?: unknown;
  readonly grammar?: Grammar | null;
  readonly adapter?: string;
}

/** What asks the executor whether it can compute a request: it throws if not. */
export function checkerOf({ checkRequest }: EngineConfig): (request: Checked) => void {
  if (checkRequest === null) return () => {};
  return ({ prompt, params, grammar = null, adapter = '' }) => {
    try {
      checkRequest({ prompt, params, grammar, adapter });
    } catch (error) {
      if (error instanceof BlockstepError) throw error;
      const message = `the executor refuses the request: ${describeError(error)}`;
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message, { cause: error });
    }
  };
}
