import { BlockstepError, messageOf } from '../../../base/errors.js';

/** The error of a model that could not be fetched, ERR_BLOCKSTEP_DOWNLOAD. @param what happened, in words that hold no secret */
export function downloadError(what: string, cause?: unknown): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DOWNLOAD', what, cause === undefined ? undefined : { cause });
}

/** What the system said of a call of it, or of the network: its code, or its words. */
export function systemWords(error: unknown): string {
  let at = error;
  for (let depth = 0; depth < 4 && at instanceof Error; depth++, at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return messageOf(error);
}
